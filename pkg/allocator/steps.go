package allocator

import (
	"context"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
)

// Steps is a budget for searches that belong together, for example those of one attempt to schedule a pod. It
// is safe for concurrent use.
//
// One half is divided in advance: each search has its share, regardless of the others and of their order, so
// that a solution that takes few steps is found on every node. The other half is for searches that need more.
// They take it in chunks, and early searches leave something for later ones.
type Steps = search.Steps

// NewSteps returns a budget for a number of searches. Together they take about total steps at most; they take
// more only if their shares would be too small to be useful.
func NewSteps(total, searches int) *Steps { return search.NewSteps(total, searches) }

// WithSteps returns a context that limits searches to the budget. Each of them stays within Solver.StepBudget
// as well. nil means that there is no common budget.
func WithSteps(ctx context.Context, steps *Steps) context.Context {
	return search.WithSteps(ctx, steps)
}
