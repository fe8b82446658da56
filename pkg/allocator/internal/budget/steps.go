// Package budget bounds the effort of searches, in steps: of one, and of several together.
package budget

import (
	"context"
	"sync/atomic"
)

// Default is how many steps a search may take if nobody says otherwise.
const Default = 100_000

const (
	// leastShare is how many steps a search gets in any case. Claims without odd
	// combinations of constraints and counters need one or two for each of their devices.
	leastShare = 128
	// chunk is how many steps a search takes at a time of those that are for all.
	chunk = 256
	// mostAtOnce is about how many searches run at the same time. Of what is left for all,
	// one may take as much as the others of so many would get.
	mostAtOnce = 16
)

// Steps is a budget for searches that belong together, such as those of one attempt to
// schedule a pod. It is safe for concurrent use.
//
// Half of it is shared out: each search has its share, whatever the others do and whoever is
// first, so that a solution that takes few steps is found on every node. The other half is
// for those that need more. They take it piece by piece and each only as long as it has
// taken no more than one of mostAtOnce would get of the rest, so that the first ones leave
// something for those that come later.
type Steps struct {
	// share is what each search can take by itself.
	share int
	// users is for how many of them the rest is at least to be enough.
	users int64
	// left is what remains of the other half.
	left atomic.Int64
}

// NewSteps returns a budget for a number of searches. All of them together take about total
// steps at most, more only if shares would be too small to be of any use.
func NewSteps(total, searches int) *Steps {
	searches = max(1, searches)
	s := &Steps{share: max(leastShare, total/2/searches), users: int64(min(searches, mostAtOnce))}
	s.left.Store(int64(total / 2))
	return s
}

// more takes steps for a search that has taken so many of those that are for all. It returns
// how many it got, at most the number wanted; 0 if it cannot have more.
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

// WithSteps returns a context with which searches stay within the budget, and each of them
// within Solver.StepBudget as well. nil stands for no common budget.
func WithSteps(ctx context.Context, steps *Steps) context.Context {
	return context.WithValue(ctx, stepsKey{}, steps)
}

// stepsOf returns the common budget of a context, nil if it has none.
func stepsOf(ctx context.Context) *Steps {
	steps, _ := ctx.Value(stepsKey{}).(*Steps)
	return steps
}

// Allowance is how many steps a search may take.
type Allowance struct {
	// Most is what it can have, if there is enough for all.
	Most int
	// limit is what it has now, and taken what of that it has out of what is for all.
	limit, taken int
	common       *Steps
}

// NewAllowance is what a search may take that has a budget of its own, and maybe a common one
// in its context.
func NewAllowance(ctx context.Context, budget int) Allowance {
	a := Allowance{limit: budget, Most: budget, common: stepsOf(ctx)}
	if a.common != nil {
		a.limit = min(budget, a.common.share)
	}
	return a
}

// Suffices reports whether the search may take so many steps.
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

// Own returns how many more steps the search may take, after those that it has taken, without
// having more of the common budget than it has already.
func (a *Allowance) Own(steps int) int { return max(0, a.limit-steps) }

// IsCommon reports whether it is the common budget that was not enough.
func (a *Allowance) IsCommon() bool { return a.limit < a.Most }
