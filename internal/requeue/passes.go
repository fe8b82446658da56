package requeue

import "time"

// passesInARow is how often a pod may be tried before its pause is over, and passAgain how long it takes until it may once more.
// Each attempt counts once, whatever happens until the next one begins.
const (
	passesInARow = 10
	passAgain    = LongestPause
)

// passes are the attempts that a pod began before its pause was over. Without a bound on these, a pod that wakes itself would be
// tried without end, and nobody else: its claim is written and undone in each attempt, which looks like an event that helps it.
type passes struct {
	spent int
	since time.Time // from when on the next one is given back
	begun int       // how many attempts had begun when the last one was spent
}

// take reports whether the pod may be tried now, after so many attempts have begun.
func (p *passes) take(begun int, now time.Time) bool {
	if p.begun == begun {
		return true
	}
	back := int(now.Sub(p.since) / passAgain)
	p.spent, p.since = max(0, p.spent-back), p.since.Add(time.Duration(back)*passAgain)
	switch p.spent {
	case passesInARow:
		return false
	case 0:
		p.since = now
	}
	p.spent++
	p.begun = begun
	return true
}

// pass reports whether the pod may be tried now.
func (p *Pod) pass(now time.Time) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.restLocked(now) <= 0 || p.passes.take(p.begun, now)
}

// fail notes that an attempt came to nothing, and not because a plugin has rejected the pod.
func (p *Pod) fail(now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.counted, p.since = true, now
	p.errors++
}

// Fail notes that an attempt that had a node for the pod came to nothing.
func (w *Waker) Fail(p *Pod) { p.fail(w.now()) }

// returns are the pauses before a pod is asked to be tried again. The scheduler puts it into its queue a moment after Unreserve,
// and does not tell when; what comes too early has no effect, and neither has what comes when the pod is being tried again.
var returns = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 320 * time.Millisecond}

// TryAgain has a pod tried again whose attempt was undone a moment ago, without the pause that follows errors: something is known
// by now that it did not take into account. If that has happened too often, it is tried after the pause.
func (w *Waker) TryAgain(p *Pod) {
	if p.pass(w.now()) {
		w.tryAgain(p, p.attemptsBegun(), returns)
	} else {
		w.Retry(p)
	}
}

func (w *Waker) tryAgain(p *Pod, begun int, pauses []time.Duration) {
	if len(pauses) == 0 {
		return
	}
	time.AfterFunc(pauses[0], func() {
		if p.attemptsBegun() == begun {
			w.activateNow(p)
			w.tryAgain(p, begun, pauses[1:])
		}
	})
}
