package preemption

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

func member(pod *v1.Pod) {
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("gang")}
}

// TestForcedMember: a pod of a PodGroup that was deleted without waiting for its node may still run with the group's claim, which nothing
// in the API shows. The claim is released for nobody then, before it is deallocated by the controller.
func TestForcedMember(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  *v1.Pod // when it goes
		live *v1.Pod // then, on the server
		// faults are how often the server cannot be asked.
		faults int
		held   bool
	}{
		"deleted by force":               {pod: victim("a", member, running), held: true},
		"deleted by force, asked late":   {pod: victim("a", member), faults: 3, held: true},
		"replaced":                       {pod: victim("a", member), live: victim("a", member, another), held: true},
		"has ended":                      {pod: victim("a", member), live: victim("a", member, failed)},
		"has ended, asked late":          {pod: victim("a", member), live: victim("a", member, failed), faults: 3},
		"was terminating":                {pod: victim("a", member, terminating)},
		"was never bound":                {pod: victim("a", member, unbound)},
		"ended, as the informer told it": {pod: victim("a", member, failed)},
		"of no group":                    {pod: victim("a")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := held()
			group("gang")(claim)
			inWorld(t, claim, nil, func(t *testing.T, w *world) {
				w.before["list pods"] = times(tc.faults, apierrors.NewServiceUnavailable("away"))
				if tc.live != nil {
					w.pods = []*v1.Pod{tc.live}
				}
				w.PodHappened(informer.Event[v1.Pod]{Before: tc.pod, Missed: true})
				w.groups = []string{"gang"} // No pod of it is on a node, as far as the API shows.
				w.await("preemptor")
				w.pass(time.Hour)
				if !tc.held {
					w.requireReleased()
				} else {
					w.requireHeld()
					before := w.stored
					w.write(deallocated)
					w.ClaimHappened(informer.Event[resourceapi.ResourceClaim]{Before: before, After: w.stored})
				}
				require.Empty(t, w.vanished)
				w.Await("preemptor")
				w.requireEmpty()
			})
		})
	}
}

// TestForcedMemberOfAClaimThatGoes: nothing is remembered of claims that are gone, or are another group's.
func TestForcedMemberOfAClaimThatGoes(t *testing.T) {
	t.Parallel()
	claim := held()
	group("gang")(claim)
	inWorld(t, claim, nil, func(t *testing.T, w *world) {
		for _, after := range []*resourceapi.ResourceClaim{nil, held("a")} {
			w.PodHappened(informer.Event[v1.Pod]{Before: victim("a", member), Missed: true})
			w.settle()
			require.Len(t, w.vanished, 1)
			w.ClaimHappened(informer.Event[resourceapi.ResourceClaim]{Before: claim, After: claim})
			require.Len(t, w.vanished, 1)
			if after == nil {
				w.ClaimHappened(informer.Event[resourceapi.ResourceClaim]{Before: claim})
			} else {
				w.ClaimHappened(informer.Event[resourceapi.ResourceClaim]{Before: claim, After: after})
			}
			require.Empty(t, w.vanished)
		}
	})
}
