package quartermaster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// boundTo returns a copy of the pod that is bound to a node.
func boundTo(pod *v1.Pod, node string) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

// TestUnreserveOfBoundPod: the binding took effect, but its answer got lost.
func TestUnreserveOfBoundPod(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("c"))
	namesake := boundTo(pod, "n1")
	namesake.UID = types.UID("another")
	for name, test := range map[string]struct {
		onServer  *v1.Pod
		consumers []string
	}{
		"bound":                             {onServer: boundTo(pod, "n1"), consumers: []string{"p"}},
		"not bound":                         {onServer: pod},
		"gone, a namesake has been bound":   {onServer: namesake},
		"bound somewhere else, its problem": {onServer: boundTo(pod, "n2"), consumers: []string{"p"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
				a := f.bound(pod, "n1")
				f.create(test.onServer)
				a.unreserve("n1")
				require.Equal(t, test.consumers, consumerNames(f.claim("c")))
				require.Len(t, deviceNames(f.claim("c")), len(test.consumers), "who needs the claim keeps the device")
				require.Zero(t, f.pl.state.Ledger.InFlightCount())
			})
		})
	}
}

// TestUnreserveOfPodThatWasBoundBefore: the attempt was for a pod that already runs with an allocated claim, which the
// plugin did not know. The in-flight entry ends, and the pod keeps its claim.
func TestUnreserveOfPodThatWasBoundBefore(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("c"))
	inCluster(t, plus(gpuNodes(2, "n1"), gpus("c", 1).Obj(), pod), func(t *testing.T, f *fixture) {
		f.fail(fault{on: "update", before: func() {
			f.changeClaim("c", func(claim *resourceapi.ResourceClaim) {
				claim.Status.Allocation = gpus("c", 1).Allocated("n1", "gpu-1").Status.Allocation
				claim.Finalizers = []string{resourceapi.Finalizer}
				claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
			})
			f.replace(boundTo(pod, "n1"))
		}})
		result := f.schedule(pod)
		require.Equal(t, "PreBind", result.phase)
		require.ErrorIs(t, result.status.AsError(), write.ErrAllocatedElsewhere)
		require.Equal(t, []string{"p"}, consumerNames(f.claim("c")))
		require.Zero(t, f.pl.state.Ledger.InFlightCount())
		require.Equal(t, []string{"gpu-1"}, f.inUse("n1"))
	})
}

// TestUnreserveAsksUntilItKnows: as long as the server does not say whether the pod is
// bound, its reservation stays and it is not tried again.
func TestUnreserveAsksUntilItKnows(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("c"))
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		var away atomic.Bool
		away.Store(true)
		f.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errLost
		})
		a := f.bound(pod, "n1")
		f.create(boundTo(pod, "n1"))
		a.unreserve("n1")
		require.True(t, f.pl.commits.IsReleasing(pod.UID))
		time.Sleep(2 * commit.UndoInterval)
		require.True(t, f.pl.commits.IsReleasing(pod.UID))
		away.Store(false)
		time.Sleep(2 * commit.UndoInterval)
		f.settle()
		require.False(t, f.pl.commits.IsReleasing(pod.UID))
		require.Equal(t, []string{"p"}, consumerNames(f.claim("c")))
	})
}
