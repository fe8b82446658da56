package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// TestWaitingPodsForgotten: the plugin forgets pods that are bound or gone, even if an attempt to schedule them began
// too late.
func TestWaitingPodsForgotten(t *testing.T) {
	t.Parallel()
	inCluster(t, nil, func(t *testing.T, f *fixture) {
		bound, deleted, never := newPod("bound", uses("c")), newPod("deleted", uses("c")), newPod("never", uses("c"))
		f.create(bound)
		f.create(deleted)
		f.settle()
		for _, pod := range []*v1.Pod{bound, deleted, never} {
			_, _ = f.begin(pod)
		}
		require.Len(t, f.pl.waiting.All(), 2)
		f.replace(newPod("bound", uses("c"), func(pod *v1.Pod) { pod.Spec.NodeName = "n1" }))
		f.remove(deleted)
		f.settle()
		require.Empty(t, f.pl.waiting.All())
		_, _ = f.begin(bound)
		require.Empty(t, f.pl.waiting.All())
	})
}

// TestGatedAfterFailure: an attempt failed while a claim was being deleted, and the pod
// is kept out of the queue since. The new claim of that name wakes it.
func TestGatedAfterFailure(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj(), newPod("p", uses("c"))), func(t *testing.T, f *fixture) {
		f.fail(fault{on: "update/status", err: forbidden()})
		require.Equal(t, "PreBind", f.schedule(f.pod("p")).phase)
		f.remove(gpus("c", 1).Obj())
		f.settle()
		f.forget()
		require.Equal(t, "PreEnqueue", f.schedule(f.pod("p")).phase)
		f.create(with(gpus("c", 1).Obj(), func(c *resourceapi.ResourceClaim) { c.UID = "another" }))
		f.settle()
		require.Contains(t, f.names(), "default/p")
		require.Empty(t, f.schedule(f.pod("p")).phase)
	})
}
