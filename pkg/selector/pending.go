package selector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrPending marks an answer that is not known yet. It is not a verdict.
var ErrPending = errors.New("the expression is still being evaluated")

// A Pending is the error for a set that is still being evaluated in the background. It is an ErrPending.
type Pending struct {
	// Work is the work that must be done before it makes sense to ask again.
	Work *Work

	set        *Set // nil if the expression is not a selector
	expression int  // index in the set
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

// maxOverdue limits the evaluations in progress that took too long and cannot be interrupted. Beyond it, new
// evaluations go to the background at once. Each evaluation takes a processor.
const maxOverdue = 2

// within finishes a judgement within a budget, or leaves it to the background and returns a Pending. A
// deadline of the context limits the budget; when it passes, the evaluation goes on in the background, so
// that a later attempt gets the answer.
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

// leave leaves a judgement to the background. The background restarts it, because the given one may still be running.
func (e *Evaluator) leave(budget *Budget, j *judgement) error {
	return &Pending{Work: e.background.add(budget.tenant, j.question, j.slice)}
}

// States of a judgement: the goroutine that runs it or the caller that waits for it ends the underWay state first.
const (
	underWay int32 = iota
	finished
	abandoned
)

// tryFinish reports whether the judgement finished in time. It never waits longer, not even for an expression
// that cannot be interrupted.
func (e *Evaluator) tryFinish(ctx context.Context, budget *Budget, j *judgement) bool {
	left := budget.begin()
	if left <= 0 {
		return false
	}
	defer budget.end()
	// Not WithTimeout: that relies on the parent context to end at its deadline, but some contexts only close
	// their channel when they are cancelled.
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
