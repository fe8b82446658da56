package allocator_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// leastShare is the guaranteed number of steps of a search.
const leastShare = 128

// infeasibleSteps runs a search that never comes to an end and returns how many steps it took,
// checks included.
func infeasibleSteps(t *testing.T, steps *allocator.Steps) *allocator.Outcome {
	c, claim := infeasible()
	outcome, err := c.solve(allocator.WithSteps(t.Context(), steps), claim)
	require.NoError(t, err)
	require.True(t, outcome.GaveUp)
	return outcome
}

// TestCommonStepsAreShared: the first of many endless searches leave steps to later ones, and all together
// stay within the budget.
func TestCommonStepsAreShared(t *testing.T) {
	const total, nodes = 400_000, 100
	const share = total / 2 / nodes
	steps, sum := allocator.NewSteps(total, nodes), 0
	var took []int
	for range nodes {
		outcome := infeasibleSteps(t, steps)
		took = append(took, outcome.Steps)
		require.True(t, outcome.CommonBudget)
		sum += outcome.Steps
	}
	require.LessOrEqual(t, sum, total+nodes, "the step that is one too many counts")
	for i, n := range took {
		require.LessOrEqual(t, n, share+total/2/16+1, "search %d", i)
		require.GreaterOrEqual(t, n, share/20, "search %d: a check counts as ten steps, and there is one a step at most", i)
	}
	require.Greater(t, took[0], 2*took[nodes-1])
	require.Greater(t, took[15], took[nodes-1], "sixteen are worth as much as the rest together")
}

// TestCommonStepsOfOneSearch: with few nodes, the budget of a node is what counts.
func TestCommonStepsOfOneSearch(t *testing.T) {
	c, claim := infeasible()
	alone := c.mustNotFit(t, claim)
	for _, nodes := range []int{0, 1, 2, 3} {
		steps := allocator.NewSteps(20*allocator.DefaultStepBudget, nodes)
		for range nodes {
			outcome := infeasibleSteps(t, steps)
			require.Equal(t, alone.Steps, outcome.Steps)
			require.False(t, outcome.CommonBudget)
		}
	}
}

// TestFewStepsAreAlwaysThere: a solution that takes few steps is found regardless of the steps that other
// nodes have used, and of their order.
func TestFewStepsAreAlwaysThere(t *testing.T) {
	steps := allocator.NewSteps(1000, 5000)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for range 4 {
				infeasibleSteps(t, steps)
			}
		})
	}
	ordinary := nodeWith(0, gpus(leastShare)...)
	for range 200 {
		outcome, err := ordinary.solve(allocator.WithSteps(t.Context(), steps), wants(32), b.Claim("more", b.Request("gpu", "gpu").Count(32)))
		require.NoError(t, err)
		require.True(t, outcome.Fits())
	}
	wait.Wait()
	require.LessOrEqual(t, infeasibleSteps(t, steps).Steps, leastShare+1, "and no more than that")
}

// TestStepsOfManyAtOnce: searches that run at the same time get about the same, and together
// no more than there is.
func TestStepsOfManyAtOnce(t *testing.T) {
	const total, nodes = 200_000, 64
	steps := allocator.NewSteps(total, nodes)
	var wait sync.WaitGroup
	var mutex sync.Mutex
	sum, least := 0, total
	for range 16 {
		wait.Go(func() {
			for range nodes / 16 {
				n := infeasibleSteps(t, steps).Steps
				mutex.Lock()
				sum, least = sum+n, min(least, n)
				mutex.Unlock()
			}
		})
	}
	wait.Wait()
	require.LessOrEqual(t, sum, total+nodes)
	require.GreaterOrEqual(t, least, total/2/nodes/20)
}

// TestReasonsHaveTheirOwnSteps: the reason is found even if other searches have used up all steps.
func TestReasonsHaveTheirOwnSteps(t *testing.T) {
	steps := allocator.NewSteps(0, 1)
	infeasibleSteps(t, steps)
	c := nodeWith(0, numbered(gpus(8), "numa", 0, 1)...)
	claims := []*b.ClaimBuilder{wants(5).Match("gpu.example.com/numa")}
	reason := func(ctx context.Context) string {
		outcome, err := c.solve(ctx, claims...)
		require.NoError(t, err)
		require.False(t, outcome.GaveUp)
		return outcome.Reason() + outcome.Explain().String()
	}
	require.Equal(t, reason(t.Context()), reason(allocator.WithSteps(t.Context(), steps)))
}

func TestReasonOfCommonBudget(t *testing.T) {
	require.Equal(t, "claim default/hard: gave up looking for devices because the searches on all nodes together have used up "+
		"their steps; there may be a solution (fewer requests or constraints in a claim make it easier to find)",
		infeasibleSteps(t, allocator.NewSteps(0, 1)).Reason())
}
