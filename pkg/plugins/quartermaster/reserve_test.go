package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// poolOfNode is the pool that gpuNodes makes for a node.
func poolOfNode(node string) inventory.PoolID {
	return inventory.PoolID{Driver: "gpu.example.com", Name: node}
}

// inUse lists the devices of a node's pool that the ledger has as used.
func (f *fixture) inUse(node string) []string {
	var names []string
	for name := range f.pl.state.Ledger.Pool(poolOfNode(node)).All() {
		names = append(names, name)
	}
	return names
}

// TestReserveConflict: two cycles of one scheduler do not overlap up to Reserve, but
// an informer event or another profile can get in between.
func TestReserveConflict(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj()), func(t *testing.T, f *fixture) {
		first := f.mustBegin(newPod("first", uses("a"))).filter()
		second := f.mustBegin(newPod("second", uses("b"))).filter()
		require.NoError(t, first.reserve("n1").AsError())

		status := second.reserve("n1")
		require.Equal(t, fwk.Error, status.Code(), "to be tried again soon")
		require.Equal(t, "the devices on node n1 changed since it was chosen: "+
			"claim default/b request gpu: 1 device matches: 1 asked; 0 free; 1 held by another claim", status.Message())
		require.Equal(t, 1, f.pl.state.Ledger.InFlightCount(), "only that of the first")

		require.NoError(t, first.preBind("n1").AsError())
		require.Empty(t, deviceNames(f.claim("b")))
		require.Empty(t, f.claim("b").Finalizers, "nothing was written")
	})
}

func TestReserveConflictInOneOfSeveralClaims(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(2, "n1"), gpus("a", 1).Obj(), gpus("b", 1).Obj(), gpus("c", 1).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		// There are two devices for the two claims. Meanwhile one is taken.
		a := f.mustBegin(newPod("p", uses("a"), uses("b"))).filter()
		f.changeClaim("c", allocate("n1", "gpu-1"))
		f.settle()

		require.Contains(t, a.reserve("n1").Message(), "the devices on node n1 changed since it was chosen")
		require.Zero(t, f.pl.state.Ledger.InFlightCount())
		require.Equal(t, []string{"gpu-1"}, f.inUse("n1"), "gpu-0 is free again")
	})
}

func TestReserveHoldsWhatFilterFound(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1", "n2"), gpus("a", 1).Obj(), gpus("b", 1).Obj()), func(t *testing.T, f *fixture) {
		first := f.mustBegin(newPod("first", uses("a"))).filter()
		require.NoError(t, first.reserve("n2").AsError())
		require.Empty(t, f.inUse("n1"), "the plan for another node was not chosen")
		require.Equal(t, []string{"gpu-0"}, f.inUse("n2"))

		second := f.mustBegin(newPod("second", uses("b"))).filter()
		require.Equal(t, []string{"n1"}, second.feasible)
		first.unreserve("n2")
		require.Empty(t, f.inUse("n2"))
		require.Empty(t, f.writes, "nothing was written, so nothing has to be undone")
	})
}

func TestReserveOnNodeThatDidNotFit(t *testing.T) {
	t.Parallel()
	inCluster(t, plus(gpuNodes(1, "n1"), gpus("a", 1).Obj()), func(t *testing.T, f *fixture) {
		a := f.mustBegin(newPod("p", uses("a"))).filter()
		status := a.reserve("n2")
		require.Equal(t, fwk.Error, status.Code())
		require.Contains(t, status.Message(), `look for devices on node n2: node "n2" not found`)
	})
}

func TestReserveOnlyUnallocatedClaims(t *testing.T) {
	t.Parallel()
	objects := plus(gpuNodes(2, "n1"), with(gpus("a", 1).Allocated("n1", "gpu-0"), onNode("n1")), gpus("b", 1).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		a := f.mustBegin(newPod("p", uses("a"), uses("b"))).filter()
		require.NoError(t, a.reserve("n1").AsError())
		require.Equal(t, 1, f.pl.state.Ledger.InFlightCount())
		require.True(t, f.inFlight()["uid-b"])
		a.unreserve("n1")
	})
}
