package selector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrPending marks an answer that is not known yet. It is no verdict of any kind.
var ErrPending = errors.New("the expression is still being evaluated")

// Pending says that a set is still being evaluated in the background. It is an
// ErrPending.
type Pending struct {
	// Work is what has to be done before it makes sense to ask again.
	Work *Work

	set        Set
	expression int // which of the set's
}

func (p *Pending) Error() string {
	return fmt.Sprintf("%s takes long to evaluate on the devices of this node; this goes on in the background, "+
		"and the pod is tried again when it is done", p.set.origin(p.expression))
}

// Is implements errors.Is.
func (p *Pending) Is(target error) bool { return target == ErrPending }

// maxOverdue is how many evaluations that took too long and that nothing can interrupt
// may go on until the next one is not begun but left to the background. Each takes a
// processor.
const maxOverdue = 2

// within evaluates an expression for a slice within a budget, or leaves that to the
// background and returns a Pending.
func (e *Evaluator) within(ctx context.Context, budget *Budget, j *judgement) (*verdict, error) {
	if !e.background.costly(j.expression) && e.overdue.Load() < maxOverdue {
		if e.tryFinish(ctx, budget, j) {
			return j.keep(), nil
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("evaluating selectors for slice %s: %w", j.slice.Name, context.Cause(ctx))
	}
	// What was begun is not used any more, because it may be going on.
	return nil, &Pending{Work: e.background.add(&judgement{slice: j.slice, expression: j.expression})}
}

// Who is done with a judgement first: the goroutine that makes it, or who waits for that.
const (
	underWay int32 = iota
	finished
	abandoned
)

// tryFinish reports whether the judgement could be finished in time. It does not wait
// any longer than that: not even for what cannot be interrupted.
func (e *Evaluator) tryFinish(ctx context.Context, budget *Budget, j *judgement) bool {
	left := budget.begin()
	if left <= 0 {
		return false
	}
	defer budget.end()
	own, cancel := context.WithTimeout(ctx, min(left, quickly))
	defer cancel()
	var state atomic.Int32
	done := make(chan error, 1)
	go func() {
		err := e.finish(own, j)
		if !state.CompareAndSwap(underWay, finished) {
			e.overdue.Add(-1)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			return true
		}
	case <-own.Done():
		e.overdue.Add(1)
		if !state.CompareAndSwap(underWay, abandoned) {
			e.overdue.Add(-1)
			if <-done == nil {
				return true
			}
		}
	}
	if left >= quickly && ctx.Err() == nil {
		e.background.noteCostly(j.expression)
	}
	return false
}
