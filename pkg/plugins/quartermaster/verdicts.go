package quartermaster

import (
	"context"
	"errors"
	"time"

	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Whoever may create claims chooses expressions, and a single one can take minutes on
// the devices of a cluster. What an attempt and what the handling of events may wait
// for that is bounded, because nothing else goes on meanwhile: no other pod is scheduled,
// the scheduling queue is locked, no pod is woken.
const (
	attemptBudget = 40 * time.Millisecond
	// Events may come one right after the other.
	eventBudget       = 40 * time.Millisecond
	eventBudgetPeriod = 400 * time.Millisecond
)

// newEventContext is for all events.
func newEventContext() context.Context {
	return selector.WithBudget(context.Background(), selector.NewBudget(eventBudget, eventBudgetPeriod))
}

// awaitVerdict has the pod tried again when what the error says is pending is known.
func (pl *Quartermaster) awaitVerdict(p *waitingPod, err error) {
	var pending *selector.Pending
	if !errors.As(err, &pending) {
		return
	}
	wake := func() { pl.waker.wake(p) }
	if !p.await(pending.Work, wake) {
		wake()
	}
}

// await has the function called when the work is done, or part of it, unless another
// attempt begins before. It reports false if it is done already.
func (p *waitingPod) await(work *selector.Work, wake func()) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.verdicts[work] != nil {
		return true
	}
	leave, ok := work.Notify(wake)
	if !ok {
		return false
	}
	if p.verdicts == nil {
		p.verdicts = make(map[*selector.Work]func())
	}
	p.verdicts[work] = leave
	return true
}

// leaveVerdicts needs the mutex.
func (p *waitingPod) leaveVerdicts() {
	for _, leave := range p.verdicts {
		leave()
	}
	p.verdicts = nil
}
