package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// full runs an attempt in which other plugins reject all nodes. It returns the message of PostFilter.
func (f *classicFixture) full(pod string) string {
	a := f.mustBegin(f.pod(pod)).filter()
	_, status := f.pl.PostFilter(f.ctx, a.state, a.pod, nil)
	f.settle()
	return status.Message()
}

// A driver is not asked to free a claim that the pod can use by now, even if the request takes long.
func TestClassicFreeIsWithdrawn(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a"), byController("one"), newPod("pod", uses("one"))), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		f.schedule(pod)
		f.settle()
		f.allocateOn("one", "late")
		f.changeClaim("one", reservedFor("pod"))
		f.settle()
		f.contexts.SetDown(true)
		require.Equal(t, "the driver of claim default/one is asked to deallocate it", f.schedule(pod).text())
		f.settle()

		f.create(builder.Node("late"))
		f.settle()
		outcome := f.schedule(pod)
		require.Empty(t, outcome.phase, outcome.text())
		require.Equal(t, "late", outcome.node)
		f.contexts.SetDown(false)
		time.Sleep(time.Minute)
		f.settle()
		require.False(t, conversion.AlphaClaimOf(f.claim("one")).DeallocationRequested)
		require.Equal(t, []string{"pod"}, consumerNames(f.claim("one")))
	})
}

// Two pods that share a claim have selected the same node, which has no room for either any more. Only one of them has
// the claim freed.
func TestClassicClaimOfTwoPodsOnOneNode(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a"), byController("one"), newPod("first", uses("one")), newPod("second", uses("one"))), func(t *testing.T, f *classicFixture) {
		for _, name := range []string{"first", "second"} {
			require.Equal(t, fwk.Pending, f.schedule(f.pod(name)).status.Code())
			f.settle()
			require.Equal(t, "a", f.contexts.Stored(name).Spec.SelectedNode)
		}
		f.create(builder.Node("b"))
		f.allocateOn("one", "a")

		require.Empty(t, f.full("second"))
		require.False(t, conversion.AlphaClaimOf(f.claim("one")).DeallocationRequested)
		require.Contains(t, f.full("first"), "the driver of claim default/one is asked to deallocate it")
		require.True(t, conversion.AlphaClaimOf(f.claim("one")).DeallocationRequested)
	})
}

// A driver has allocated on a node whose devices another claim has got meanwhile.
func TestClassicDevicesAreGone(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(1, "a", "b"), byController("theirs"), gpus("ours", 1).Obj(), gpus("conflicting", 1).Obj(),
		newPod("pod", uses("theirs"), uses("ours"))), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		f.schedule(pod)
		f.settle()
		f.answer("pod", "theirs", "a")
		require.Equal(t, fwk.Pending, f.schedule(pod).status.Code())
		f.settle()
		require.Equal(t, "b", f.contexts.Stored("pod").Spec.SelectedNode)
		f.changeClaim("conflicting", allocate("b", "gpu-0"))
		f.allocateOn("theirs", "b")

		outcome := f.schedule(pod)
		require.Equal(t, "Filter", outcome.phase)
		require.Equal(t, "the driver of claim default/theirs is asked to deallocate it", outcome.text())
		f.settle()
		require.True(t, conversion.AlphaClaimOf(f.claim("theirs")).DeallocationRequested)
		require.Empty(t, f.inFlight())
	})
}

// Requests of a negotiation: the context is created and deleted. Attempts in between without news write nothing.
func TestClassicRequests(t *testing.T) {
	t.Parallel()
	inClassicCluster(t, plus(gpuNodes(0, "a", "b"), byController("one"), newPod("pod", uses("one"))), func(t *testing.T, f *classicFixture) {
		pod := f.pod("pod")
		for range 3 {
			require.Equal(t, fwk.Pending, f.schedule(pod).status.Code())
			f.settle()
		}
		require.Equal(t, []string{"create pod"}, f.contexts.Took())
		f.answer("pod", "one")
		require.Equal(t, fwk.Pending, f.schedule(pod).status.Code())
		f.settle()
		require.Empty(t, f.contexts.Took())

		f.allocateOn("one", f.contexts.Stored("pod").Spec.SelectedNode)
		a := f.mustBegin(pod).filter()
		node := a.best()
		require.Nil(t, a.reserve(node))
		require.Nil(t, a.preBind(node))
		f.pl.PostBind(f.ctx, a.state, pod, node)
		f.settle()
		require.Equal(t, []string{"delete pod"}, f.contexts.Took())
	})
}
