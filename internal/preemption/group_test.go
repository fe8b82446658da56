package preemption

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// ourProfile schedules the pods that name no scheduler.
type ourProfile struct{}

func (ourProfile) Trying(types.UID) *v1.Pod                   { return nil }
func (ourProfile) Binding(types.UID) *v1.Pod                  { return nil }
func (ourProfile) Schedules(name string) bool                 { return name == "" }
func (ourProfile) LeavesAlone(_, _ types.UID, _ *v1.Pod) bool { return false }

// TestGroupUsage: a group does without its claim only if no pod of it is on a node or may be about to be, for all that the server has: the
// informer may not have told of new pods.
func TestGroupUsage(t *testing.T) {
	t.Parallel()
	ofTrain := func(name string, edits ...func(*v1.Pod)) *v1.Pod {
		pod := victim(name, unbound, builder.InGroup("train"))
		for _, edit := range edits {
			edit(pod)
		}
		return pod
	}
	theirs := func(pod *v1.Pod) { pod.Spec.SchedulerName = "other" }
	onNode := func(pod *v1.Pod) { pod.Spec.NodeName = "node" }
	for name, test := range map[string]struct {
		known, unknown []*v1.Pod
		want           Usage
	}{
		"no pod":                                {want: Abandoned},
		"ours waits":                            {known: []*v1.Pod{ofTrain("a")}, want: Abandoned},
		"ours is on a node":                     {known: []*v1.Pod{ofTrain("a", onNode)}, want: Used},
		"theirs waits":                          {known: []*v1.Pod{ofTrain("a", theirs)}, want: Used},
		"ours is on a node as the server knows": {unknown: []*v1.Pod{ofTrain("a", onNode)}, want: Unheard},
		"theirs waits as the server knows":      {known: []*v1.Pod{ofTrain("a")}, unknown: []*v1.Pod{ofTrain("b", theirs)}, want: Unheard},
		"theirs has ended":                      {unknown: []*v1.Pod{ofTrain("b", theirs, failed)}, want: Abandoned},
		"ours is new":                           {unknown: []*v1.Pod{ofTrain("b")}, want: Abandoned},
		"a pod of another group uses the claim": {unknown: []*v1.Pod{victim("b", unbound, theirs, builder.InGroup("else"))}, want: Abandoned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := held()
			group("train")(stored)
			inWorld(t, stored, test.known, func(t *testing.T, w *world) {
				w.pods = append(w.pods, test.unknown...)
				informer, known := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.Pod{}, 0, cache.Indexers{}), new(claims.Claims)
				require.NoError(t, known.IndexPods(informer, "by-claim"))
				for _, pod := range test.known {
					require.NoError(t, informer.GetIndexer().Add(pod))
				}
				groups := Groups{Known: known, InUse: workload.NewClaims(), Server: w.writer, Profiles: ourProfile{}, Takeover: ourProfile{}}
				w.waiting(func() {
					state, _, end, err := groups.Usage(t.Context(), stored, stored.Status.ReservedFor[0])
					require.NoError(t, err)
					require.Equal(t, test.want, state)
					if end != nil {
						end()
					}
				})
				require.True(t, groups.InUse.Empty(), "no release is left begun")
			})
		})
	}
}
