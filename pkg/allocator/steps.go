package allocator

import (
	"context"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/budget"
)

// Steps is a budget for searches that belong together, such as those of one attempt to
// schedule a pod. It is safe for concurrent use.
//
// Half of it is shared out: each search has its share, whatever the others do and whoever is
// first, so that a solution that takes few steps is found on every node. The other half is
// for those that need more, piece by piece, and the first ones leave something for those that
// come later.
type Steps = budget.Steps

// NewSteps returns a budget for a number of searches. All of them together take about total
// steps at most, more only if shares would be too small to be of any use.
func NewSteps(total, searches int) *Steps { return budget.NewSteps(total, searches) }

// WithSteps returns a context with which searches stay within the budget, and each of them
// within Solver.StepBudget as well. nil stands for no common budget.
func WithSteps(ctx context.Context, steps *Steps) context.Context {
	return budget.WithSteps(ctx, steps)
}
