package requeue

import (
	"context"
	"errors"
	"time"

	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Whoever may create claims chooses expressions, and a single one can take minutes on
// the devices of a cluster. What the handling of events may wait for that is bounded,
// because nothing else goes on meanwhile: the scheduling queue is locked, no pod is woken.
// Events may come one right after the other.
const (
	eventBudget       = 40 * time.Millisecond
	eventBudgetPeriod = 400 * time.Millisecond
)

// NewContext returns what Events.Context is, for all events of a profile.
func NewContext() context.Context {
	return selector.WithBudget(context.Background(), selector.NewBudget(eventBudget, eventBudgetPeriod))
}

// AwaitVerdict has the pod tried again when what the error says is pending is known.
func (w *Waker) AwaitVerdict(p *Pod, err error) {
	var pending *selector.Pending
	if !errors.As(err, &pending) {
		return
	}
	wake := func() { w.Wake(p) }
	if !p.await(pending.Work, wake) {
		wake()
	}
}

// await has the function called when the work is done, or part of it, unless another
// attempt begins before. It reports false if it is done already.
func (p *Pod) await(work *selector.Work, wake func()) bool {
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
func (p *Pod) leaveVerdicts() {
	for _, leave := range p.verdicts {
		leave()
	}
	p.verdicts = nil
}

// Pending returns how many evaluations have the pod tried again when they are done.
func (p *Pod) Pending() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.verdicts)
}
