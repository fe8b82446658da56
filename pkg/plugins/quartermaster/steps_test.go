package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// oddNode returns a node with devices of class gpu. Eight of them fit together only if their weights add up to exactly
// total: one counter allows no more, another no less. All weights are even, so an odd total is impossible, and only
// trying all combinations shows that.
func oddNode(name string, total int) []runtime.Object {
	const heaviest, number = 1 << 20, 8
	slice := builder.Slice(name+"-devices").InPool(name, 1, 2).OnNode(name)
	for i := range 40 {
		weight := 2 * i
		slice.Devices(builder.Device(fmt.Sprintf("gpu-%02d", i)).Attr("id", i).
			Consumes("set", "weight", fmt.Sprint(weight), "lightness", fmt.Sprint(heaviest-weight)))
	}
	counters := builder.Slice(name+"-counters").InPool(name, 1, 2).OnNode(name).
		Counters("set", "weight", fmt.Sprint(total), "lightness", fmt.Sprint(number*heaviest-total))
	return []runtime.Object{builder.Node(name), counters.Obj(), slice.Obj()}
}

// setStepBudgets sets the budgets of the next attempts.
func (f *fixture) setStepBudgets(node, attempt int) {
	f.pl.solver.StepBudget = node
	f.pl.args.StepBudget, f.pl.args.AttemptStepBudget = ptr.To(int64(node)), ptr.To(int64(attempt))
}

// TestOddNodesDoNotStarveOthers: a pod whose claim is hard on all nodes but one finds that node, wherever it is in the
// order, although the others use up their budgets.
func TestOddNodesDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	const nodes = 30
	objects := []runtime.Object{builder.Class("gpu")}
	for i := range nodes {
		objects = append(objects, oddNode(fmt.Sprintf("odd-%02d", i), 8*39+1)...)
	}
	// The first eight devices weigh this much, so that the first try does.
	easy := oddNode("zz-easy", 0+2+4+6+8+10+12+14)
	inCluster(t, plus(objects, append(easy, gpus("c", 8).Obj(), gpus("d", 9).Obj())...), func(t *testing.T, f *fixture) {
		f.setStepBudgets(2000, 4000)
		result := f.schedule(newPod("p", uses("c")))
		require.Empty(t, result.phase, "%v", result.status)
		require.Equal(t, "zz-easy", result.node)

		steps := map[string]int{}
		for _, reason := range result.reasons {
			require.Contains(t, reason, "claim default/c: gave up looking for devices")
			steps[reason]++
		}
		require.Len(t, steps, 1, "one line for all nodes: %v", steps)
		for reason := range steps {
			require.Contains(t, reason, "the searches on all nodes together have used up their steps")
			require.Contains(t, reason, "a larger attemptStepBudget among the scheduler's arguments for plugin Quartermaster")
		}
	})
}

// TestStepBudgetOfOneNode: the message names the budget that was exceeded.
func TestStepBudgetOfOneNode(t *testing.T) {
	t.Parallel()
	objects := append(oddNode("odd", 8*39+1), builder.Class("gpu"), gpus("c", 8).Obj())
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.setStepBudgets(1000, 20_000)
		result := f.schedule(newPod("p", uses("c")))
		require.Equal(t, "Filter", result.phase)
		require.Contains(t, result.reasons["odd"], "claim default/c: gave up looking for devices after 1000 steps; there may be a solution")
		require.Contains(t, result.reasons["odd"], "a larger stepBudget among the scheduler's arguments for plugin Quartermaster")
	})
}

// TestReserveHasTheBudgetOfANode: the steps used for other nodes do not limit the search on the chosen node, which may
// have other devices by now.
func TestReserveHasTheBudgetOfANode(t *testing.T) {
	t.Parallel()
	objects := append(oddNode("odd", 8*39+1), oddNode("zz-easy", 0+2+4+6+8+10+12+14)...)
	inCluster(t, plus(objects, builder.Class("gpu"), gpus("c", 8).Obj()), func(t *testing.T, f *fixture) {
		f.setStepBudgets(100_000, 0)
		a := f.mustBegin(newPod("p", uses("c"))).filter()
		require.Equal(t, []string{"zz-easy"}, a.feasible)
		// The devices that were to be had are gone; others do, after a while.
		for _, object := range oddNode("zz-easy", 2*(39+38+37+36+35+34+33+32)) {
			f.replace(object)
		}
		f.settle()
		status := a.reserve("zz-easy")
		require.True(t, status.IsSuccess(), "%v", status)
		a.unreserve("zz-easy")
	})
}
