package queue

import "time"

// passesInARow limits the attempts of a pod before its pause is over, and passAgain is the time after which it may have one
// more. Each attempt counts once, whatever happens until the next one begins.
const (
	passesInARow = 10
	passAgain    = LongestPause
)

// passes counts the attempts that a pod began before its pause was over. Without a bound, the scheduler would try a pod that
// wakes itself without end, and no other pod: each attempt writes and undoes its claim, which looks like an event that helps.
type passes struct {
	spent int
	since time.Time // the time from which the next one is given back
	try   int       // the attempt for which the last one was spent
}

// take reports whether the pod may be tried now, after so many attempts.
func (p *passes) take(tries int, now time.Time) bool {
	if p.try == tries {
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
	p.try = tries
	return true
}

// pass returns how long an activation of the pod must wait, 0 if the pod may be tried now. An attempt that this plugin did not
// reject has no pause, for instance that of a pod whose group does not fit, so it counts if it began a moment ago.
func (p *Pod) pass(now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	rest := p.restLocked(now)
	if rest <= 0 && now.Sub(p.started) >= LongestPause || p.passes.take(p.tries, now) {
		return 0
	}
	if rest > 0 {
		return rest
	}
	return LongestPause
}

// fail records an attempt that failed for another reason than a rejection by a plugin.
func (p *Pod) fail(node string, now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.counted, p.since, p.failedOn = true, now, node
	p.errors++
}

// FailedOn returns the node of the last attempt that had one for the pod and failed, "" if there was none.
func (p *Pod) FailedOn() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.failedOn
}

// Fail records an attempt that failed although it had a node for the pod.
func (w *Waker) Fail(p *Pod, node string) { p.fail(node, w.clock.Now()) }

// Paused returns for how long the pod must be kept out of the queue: the rest of its pause if its attempt failed although it had a
// node and it was tried too often before its pauses were over, otherwise 0.
func (w *Waker) Paused(p *Pod) time.Duration { return p.paused(w.clock.Now()) }

func (p *Pod) paused(now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if rest := p.restLocked(now); p.errors > 0 && rest > 0 && !p.passes.take(p.tries, now) {
		return rest
	}
	return 0
}

// returns holds the pauses before each activation of a pod. The scheduler puts the pod into its queue a moment after
// Unreserve, and does not report when. An activation has no effect if it comes too early, or while the pod is being tried again.
var returns = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 320 * time.Millisecond}

// TryAgain retries a pod whose attempt was undone a moment ago, without the pause that follows errors: by now something is known
// that the attempt did not take into account. If that has happened too often, the pod is tried after the pause.
func (w *Waker) TryAgain(p *Pod) {
	w.tryAgain(p, p.attemptsBegun(), returns)
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

// FirstPause is the first pause after an attempt in vain, and LongestPause the longest. They are the defaults of the scheduling
// queue (podInitialBackoffSeconds and podMaxBackoffSeconds), whose settings a plugin does not get to see.
const (
	FirstPause   = time.Second
	LongestPause = 10 * time.Second
)

// Pause returns the pause after so many attempts in vain, one at least: it doubles each time, up to LongestPause.
func Pause(attempts int) time.Duration {
	d := FirstPause
	for i := 1; i < attempts && d < LongestPause; i++ {
		d *= 2
	}
	return min(d, LongestPause)
}
