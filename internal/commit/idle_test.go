package commit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// left is a world in which an earlier process has allocated the claim, and reserved it for the pod.
type left struct {
	// ofDriver is set if a controller allocates claims.
	ofDriver bool
	*world
	idle *Idle
	// change changes the claim before it is stored.
	change func(claim *resourceapi.ResourceClaim)
}

// prepare stores the claim and the pods, and starts the looks.
func (l *left) prepare(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	go l.idle.Run(l.Stopping)
	synctest.Wait()
	time.Sleep(time.Second) // The first look has found nothing.
	claim := l.claim(t)
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: builder.Driver, Pool: "n", Device: "gpu-0"}}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{write.OfPod(l.pod)}
	if l.change != nil {
		l.change(claim)
	}
	_, err := l.client.ResourceV1().ResourceClaims("default").Update(t.Context(), claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	for _, pod := range pods {
		_, err := l.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	synctest.Wait()
}

// isLeft reports whether the claim is allocated after two looks.
func (l *left) isLeft(t *testing.T) bool {
	t.Helper()
	time.Sleep(IdleInterval)
	synctest.Wait()
	require.NotNil(t, l.claim(t).Status.Allocation, "found once only")
	time.Sleep(IdleInterval)
	synctest.Wait()
	return l.claim(t).Status.Allocation != nil
}

func (l *left) RunnerOf(name string) *Runner {
	if name == "other" {
		return nil
	}
	return l.Runner
}

func (l *left) Allocates(*resourceapi.ResourceClaim) bool { return l.ofDriver }

// inLeft runs a test with what an earlier process has left.
func inLeft(t *testing.T, test func(t *testing.T, l *left)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		w.Groups = workload.NewClaims()
		l := &left{world: w, idle: &Idle{Runner: w.Runner}}
		l.idle.Profiles, l.idle.Controllers = l, l
		test(t, l)
	})
}

func TestIdleClaimIsReleased(t *testing.T) {
	t.Parallel()
	group := resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "group"}
	for name, test := range map[string]struct {
		change func(*left, *resourceapi.ResourceClaim)
		pods   []*v1.Pod
		again  int32
	}{
		"its pod waits": {pods: []*v1.Pod{idlePod("p")}, again: 1},
		"it is being deleted, which its finalizer delays": {pods: []*v1.Pod{idlePod("p")}, again: 1,
			change: func(_ *left, claim *resourceapi.ResourceClaim) {
				claim.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			}},
		"both of its pods wait": {pods: []*v1.Pod{idlePod("p"), idlePod("q")}, again: 2, change: func(_ *left, claim *resourceapi.ResourceClaim) {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, write.OfPod(idlePod("q")))
		}},
		"all pods of its group wait": {pods: []*v1.Pod{idlePod("p", inGroup), idlePod("q", inGroup)}, again: 2, change: func(_ *left, claim *resourceapi.ResourceClaim) {
			claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{group}
		}},
		"it is being deleted, its pod waits, and its group has no pods": {pods: []*v1.Pod{idlePod("p")}, again: 1, change: func(_ *left, claim *resourceapi.ResourceClaim) {
			claim.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, group)
		}},
		"it was made for a pod that is gone": {change: func(l *left, claim *resourceapi.ResourceClaim) { ownedBy(l.pod, claim) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLeft(t, func(t *testing.T, l *left) {
				if test.change != nil {
					l.change = func(claim *resourceapi.ResourceClaim) { test.change(l, claim) }
				}
				l.prepare(t, test.pods...)
				require.False(t, l.isLeft(t))
				require.Empty(t, l.claim(t).Status.ReservedFor)
				require.Equal(t, l.claim(t).DeletionTimestamp != nil, len(l.claim(t).Finalizers) == 0)
				require.Nil(t, l.State.Ledger.State(l.claim(t).UID).Committed, "the ledger knows at once")
				require.Equal(t, test.again, l.again.Load())
				require.False(t, l.IsReleasing(l.pod.UID))
				require.True(t, l.Groups.BeginRelease(l.claim(t).UID), "the release of the group's claim has ended")
			})
		})
	}
}

// TestClaimThatIsNotIdle: whoever is on a node, or about to be, keeps the claim.
func TestClaimThatIsNotIdle(t *testing.T) {
	t.Parallel()
	consumer := func(pod *v1.Pod) func(*left) {
		return func(l *left) {
			l.change = func(claim *resourceapi.ResourceClaim) {
				claim.Status.ReservedFor = append(claim.Status.ReservedFor, write.OfPod(pod))
			}
		}
	}
	for name, test := range map[string]struct {
		prepare func(*left)
		pods    []*v1.Pod
	}{
		"the pod is known to be on a node":  {pods: []*v1.Pod{idlePod("p", onNode)}},
		"the server says so":                {pods: []*v1.Pod{idlePod("p")}, prepare: func(l *left) { l.needed = func() (bool, error) { return true, nil } }},
		"the server says nothing":           {pods: []*v1.Pod{idlePod("p")}, prepare: func(l *left) { l.needed = func() (bool, error) { return false, context.DeadlineExceeded } }},
		"an attempt has begun":              {pods: []*v1.Pod{idlePod("p")}, prepare: func(l *left) { l.Begin(l.pod) }},
		"an attempt is being undone":        {pods: []*v1.Pod{idlePod("p")}, prepare: func(l *left) { l.pending.begin(l.pod.UID) }},
		"a binding may arrive yet":          {pods: []*v1.Pod{idlePod("p")}, prepare: func(l *left) { l.Takeover.Duration = time.Hour }},
		"the pod is another scheduler's":    {pods: []*v1.Pod{idlePod("p", func(pod *v1.Pod) { pod.Spec.SchedulerName = "other" })}},
		"a controller has allocated it":     {pods: []*v1.Pod{idlePod("p")}, prepare: func(l *left) { l.ofDriver = true }},
		"another pod that uses it runs":     {pods: []*v1.Pod{idlePod("p"), idlePod("q", onNode)}, prepare: consumer(idlePod("q"))},
		"it is reserved for somebody else":  {pods: []*v1.Pod{idlePod("p")}, prepare: consumer(idlePod("unknown"))},
		"the pod is gone and left it":       {},
		"it was made for a pod, not for it": {prepare: func(l *left) { l.change = func(claim *resourceapi.ResourceClaim) { ownedBy(idlePod("q"), claim) } }},
		"the watch has not brought its pod": {prepare: func(l *left) {
			l.unseen(l.pod)
			l.change = func(claim *resourceapi.ResourceClaim) { ownedBy(l.pod, claim) }
		}},
		"an attempt of its group has begun": {pods: []*v1.Pod{idlePod("p", inGroup)}, prepare: func(l *left) { l.reservedForGroup(true) }},
		"a pod of its group is on a node":   {pods: []*v1.Pod{idlePod("p", inGroup), idlePod("q", inGroup, onNode)}, prepare: func(l *left) { l.reservedForGroup(false) }},
		"its group has no pods (any more)":  {prepare: func(l *left) { l.reservedForGroup(false) }},
		"the watch has not brought its group's pod": {prepare: func(l *left) {
			l.unseen(idlePod("q", inGroup))
			l.reservedForGroup(false)
			reserve := l.change
			l.change = func(claim *resourceapi.ResourceClaim) {
				reserve(claim)
				claim.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLeft(t, func(t *testing.T, l *left) {
				if test.prepare != nil {
					test.prepare(l)
				}
				l.prepare(t, test.pods...)
				require.True(t, l.isLeft(t))
			})
		})
	}
}

// TestNoAttemptDuringTheRelease: an attempt that began to look before the release writes nothing, and binds nothing.
func TestNoAttemptDuringTheRelease(t *testing.T) {
	t.Parallel()
	inLeft(t, func(t *testing.T, l *left) {
		var failed error
		l.needed = func() (bool, error) {
			attempt := l.Begin(l.pod)
			failed = attempt.Commit(t.Context(), "n", func(context.Context) error { return nil })
			attempt.Abort(t.Context())
			return false, nil
		}
		l.prepare(t, idlePod("p"))
		require.False(t, l.isLeft(t))
		require.ErrorContains(t, failed, "the pod's claims are being released")
		require.Empty(t, l.pending.tried)
		require.Empty(t, l.pending.claims)
	})
}

// idlePod returns a pod with the UID of the world's one if it has its name.
func idlePod(name string, changes ...func(*v1.Pod)) *v1.Pod {
	pod := builder.Pod(name, append(changes, builder.Using(builder.Uses("c")...))...)
	pod.Namespace, pod.UID = "default", types.UID("uid-"+name)
	if name == "p" {
		pod.UID = "pod"
	}
	return pod
}

func onNode(pod *v1.Pod) { pod.Spec.NodeName = "n" }

func inGroup(pod *v1.Pod) {
	name := "g"
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
}

// ownedBy makes it the claim for a pod's extended resources.
func ownedBy(pod *v1.Pod, claim *resourceapi.ResourceClaim) {
	made := extended.NewClaim(pod)
	claim.OwnerReferences, claim.Annotations = made.OwnerReferences, made.Annotations
}

// reservedForGroup has the claim reserved for a PodGroup, and used by an attempt if wanted.
func (l *left) reservedForGroup(used bool) {
	l.change = func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "group"}}
		if used {
			l.Groups.(*workload.Claims).Join(claim.UID, "another")
		}
	}
}

// unseen has the server know a pod, which is not on a node, and the informer not.
func (l *left) unseen(pod *v1.Pod) {
	l.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, &v1.PodList{Items: []v1.Pod{*pod}}, nil
	})
}
