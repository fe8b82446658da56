package queue

import (
	"context"
	"errors"
	"time"

	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Any user who may create claims chooses expressions, and evaluating a single one on the devices of a
// cluster can take minutes. These constants limit how long the handling of events waits for that,
// because nothing else happens meanwhile: the scheduling queue is locked, and no pod is woken. Events
// may come one right after the other.
const (
	eventBudget       = 40 * time.Millisecond
	eventBudgetPeriod = 400 * time.Millisecond
)

// NewContext returns a Context for Events, for all events of a profile.
func NewContext() context.Context {
	return selector.WithBudget(context.Background(), selector.NewBudget(eventBudget, eventBudgetPeriod))
}

// AwaitVerdict tries the pod again once the evaluation is done that the error reports as pending.
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

// await calls wake when the work, or part of it, is done, unless another attempt begins before. It
// returns false if the work is done already.
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

// leaveVerdicts ends the waits for all pending evaluations. The caller must hold the mutex.
func (p *Pod) leaveVerdicts() {
	for _, leave := range p.verdicts {
		leave()
	}
	p.verdicts = nil
}

// Pending returns the number of evaluations whose end wakes the pod.
func (p *Pod) Pending() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.verdicts)
}
