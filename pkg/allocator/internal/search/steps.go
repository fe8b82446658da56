package search

import (
	"context"
	"sync/atomic"
)

// Default is the default limit of a search, in steps.
const Default = 100_000

const (
	// leastShare is the guaranteed number of steps of a search. Claims without odd combinations of
	// constraints and counters need one or two for each of their devices.
	leastShare = 128
	// chunk is the number of steps that a search takes at once from the common half.
	chunk = 256
	// mostAtOnce is about the number of concurrent searches. A search may take as much of the common half as
	// each of that many others would get.
	mostAtOnce = 16
)

// Steps is a budget for searches that belong together, for example those of one attempt to schedule a pod. It
// is safe for concurrent use.
//
// One half is divided in advance: each search has its share, regardless of the others and of their order, so
// that a solution that takes few steps is found on every node. The other half is for searches that need more.
// Each takes chunks of it, only as long as it has taken no more than one of mostAtOnce searches would get of
// the rest, so that early searches leave something for later ones.
type Steps struct {
	// share is the number of steps that each search has for itself.
	share int
	// users is the number of searches that the remaining common half should suffice for.
	users int64
	// left is the rest of the common half.
	left atomic.Int64
}

// NewSteps returns a budget for a number of searches. Together they take about total steps at most; they take
// more only if their shares would be too small to be useful.
func NewSteps(total, searches int) *Steps {
	searches = max(1, searches)
	s := &Steps{share: max(leastShare, total/2/searches), users: int64(min(searches, mostAtOnce))}
	s.left.Store(int64(total / 2))
	return s
}

// more takes steps of the common half for a search that has taken some of them already. It returns the number
// of steps granted, at most wanted; 0 if the search may not have more.
func (s *Steps) more(taken, wanted int) int {
	wanted = min(wanted, chunk)
	for {
		left := s.left.Load()
		allowed := left/s.users - int64(taken)
		get := min(int64(wanted), allowed)
		if get <= 0 {
			return 0
		}
		if s.left.CompareAndSwap(left, left-get) {
			return int(get)
		}
	}
}

type stepsKey struct{}

// WithSteps returns a context that limits searches to the budget. Each of them stays within Solver.StepBudget
// as well. nil means that there is no common budget.
func WithSteps(ctx context.Context, steps *Steps) context.Context {
	return context.WithValue(ctx, stepsKey{}, steps)
}

// stepsOf returns the common budget of a context, or nil if it has none.
func stepsOf(ctx context.Context) *Steps {
	steps, _ := ctx.Value(stepsKey{}).(*Steps)
	return steps
}

// An Allowance is the number of steps that a search may take.
type Allowance struct {
	// Most is the maximum, available if the common budget suffices.
	Most int
	// limit is the number of steps granted so far, taken the part of it from the common half.
	limit, taken int
	common       *Steps
}

// NewAllowance returns the allowance of a search with its own budget, and with the common budget of its
// context, if any.
func NewAllowance(ctx context.Context, budget int) Allowance {
	a := Allowance{limit: budget, Most: budget, common: stepsOf(ctx)}
	if a.common != nil {
		a.limit = min(budget, a.common.share)
	}
	return a
}

// Suffices reports whether the search may take a total of steps.
func (a *Allowance) Suffices(steps int) bool {
	for steps > a.limit {
		if a.limit >= a.Most || a.common == nil {
			return false
		}
		more := a.common.more(a.taken, a.Most-a.limit)
		if more == 0 {
			return false
		}
		a.limit, a.taken = a.limit+more, a.taken+more
	}
	return true
}

// Own returns how many more steps the search may take, beyond those it has taken, without drawing more of the common budget.
func (a *Allowance) Own(steps int) int { return max(0, a.limit-steps) }

// IsCommon reports whether the common budget was the one that did not suffice.
func (a *Allowance) IsCommon() bool { return a.limit < a.Most }
