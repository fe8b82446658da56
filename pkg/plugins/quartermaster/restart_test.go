package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// dieOn runs an attempt up to a write that does not happen any more: the process
// was killed. Nothing is undone. It returns the scheduler that takes over.
func (f *fixture) dieOn(pod *v1.Pod, node, on, claim string) *fixture {
	a := f.mustBegin(pod).filter()
	require.NoError(f.t, a.reserve(node).AsError())
	f.fail(fault{on: on, claim: claim, err: forbidden()})
	require.False(f.t, f.pl.PreBind(f.ctx, a.state, pod, node).IsSuccess())
	require.Empty(f.t, f.faults, "the write was not reached")
	f.writes = nil
	c, err := cycleOf(a.state)
	require.NoError(f.t, err)
	for _, podClaim := range c.claims { // What exists only in memory dies with it.
		f.pl.state.Ledger.RemoveInFlight(podClaim.Object.UID, pod.UID)
	}
	return f.restart()
}

func TestResumeAfterFinalizer(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("c"))
		f = f.dieOn(pod, "n1", "update/status", "c")
		require.Equal(t, []string{resourceapi.Finalizer}, f.claim("c").Finalizers)
		require.Empty(t, f.inUse("n1"))

		require.Empty(t, f.schedule(pod).phase)
		require.Equal(t, []string{"update/status c"}, f.writes)
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("c")))
		require.Equal(t, []string{"p"}, consumerNames(f.claim("c")))
	})
}

func TestResumeAfterEverythingWasWritten(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1", "n2"), gpus("c", 1).Obj()), func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("c"))
		f.bound(pod, "n2")
		before := f.claim("c")
		f.writes = nil
		f = f.restart()
		require.Equal(t, []string{"gpu-0"}, f.inUse("n2"), "known again")

		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n2", result.node)
		require.Equal(t, []string{"update c"}, f.writes, "a write of its own")
		require.Equal(t, before.Status, f.claim("c").Status)
	})
}

func TestResumeAfterFirstOfSeveralClaims(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(2, "n1", "n2"), gpus("a", 1).Obj(), gpus("b", 1).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("a"), uses("b"))
		f = f.dieOn(pod, "n2", "update", "b")
		require.Equal(t, []string{"n2/gpu-0"}, deviceNames(f.claim("a")))

		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "n2", result.node, "where the first claim is")
		require.Equal(t, []string{"n2/gpu-1"}, deviceNames(f.claim("b")))
	})
}

// TestResumeWhereTheRestDoesNotFit: after the restart, another claim has the devices for the second claim. The first
// one is freed, and both are allocated elsewhere.
func TestResumeWhereTheRestDoesNotFit(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(2, "n1", "n2"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("other", 1).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		pod := newPod("p", uses("a"), uses("b"))
		f = f.dieOn(pod, "n2", "update", "b")
		f.changeClaim("other", allocate("n2", "gpu-1"))
		f.settle()

		first := f.schedule(pod)
		require.Equal(t, "claim default/a was deallocated to find devices elsewhere", first.text())
		f.settle()
		result := f.schedule(pod)
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, []string{"n1/gpu-0"}, deviceNames(f.claim("a")))
		require.Equal(t, []string{"n1/gpu-1"}, deviceNames(f.claim("b")))
	})
}

// TestRestartForgetsWhatWasOnlyPlanned: devices in flight are free after a crash.
func TestRestartForgetsWhatWasOnlyPlanned(t *testing.T) {
	t.Parallel()
	var claims []runtime.Object
	for _, name := range []string{"a", "b"} {
		claims = append(claims, gpus(name, 1).Obj())
	}
	inCluster(t, plus(gpuNodes(1, "n1"), claims...), func(t *testing.T, f *fixture) {
		require.NoError(t, f.mustBegin(newPod("first", uses("a"))).filter().reserve("n1").AsError())
		require.Equal(t, "Filter", f.schedule(newPod("second", uses("b"))).phase)
		f = f.restart()
		require.Empty(t, f.schedule(newPod("second", uses("b"))).phase)
	})
}
