package selector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrPending marks an answer that is not known yet. It is no verdict of any kind.
var ErrPending = errors.New("the expression is still being evaluated")

// Pending says that a set is still being evaluated in the background. It is an
// ErrPending.
type Pending struct {
	// Work is what has to be done before it makes sense to ask again.
	Work *Work

	set        *Set // nil if it is no selector
	expression int  // which of the set's
}

func (p *Pending) Error() string {
	what := "the expression"
	if p.set != nil {
		what = p.set.origin(p.expression)
	}
	return what + " takes long to evaluate on the devices of this node; this goes on in the background " +
		"and the pod is tried again when it is done"
}

// Is implements errors.Is.
func (p *Pending) Is(target error) bool { return target == ErrPending }

// maxOverdue is how many evaluations that took too long and that nothing can interrupt
// may go on until the next one is not begun but left to the background. Each takes a
// processor.
const maxOverdue = 2

// within finishes a judgement within a budget, or leaves that to the background and
// returns a Pending. A deadline of the context limits the budget, so it does not keep
// anybody from an answer that was begun.
func (e *Evaluator) within(ctx context.Context, budget *Budget, j *judgement) error {
	if !e.background.costly(j.question) && e.overdue.Load() < maxOverdue && ctx.Err() == nil {
		if e.tryFinish(ctx, budget, j) {
			return nil
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return e.leave(budget, j)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("evaluating expressions for slice %s: %w", j.slice.Name, context.Cause(ctx))
	}
	return e.leave(budget, j)
}

// leave leaves a judgement to the background, which begins anew: what was begun may be
// going on.
func (e *Evaluator) leave(budget *Budget, j *judgement) error {
	return &Pending{Work: e.background.add(budget.tenant, j.question, j.slice)}
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
	// Not WithTimeout: that trusts the context to end when its deadline says so, and the
	// channel of some only tells when they are cancelled.
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(min(left, quickly, untilDeadline(ctx)), cancel)
	defer timer.Stop()
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
		e.background.noteCostly(j.question)
	}
	return false
}

func untilDeadline(ctx context.Context) time.Duration {
	deadline, found := ctx.Deadline()
	if !found {
		return quickly
	}
	return time.Until(deadline)
}
