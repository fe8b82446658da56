package conductor

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
)

// The pause of a gang after an attempt to plan it that came to nothing, and the longest for which nothing that is known to
// happen is taken for nothing that happens. That planning in vain leaves time to others, however many gangs wait, is up
// to Conductor.takeTurn.
const (
	shortestPause = time.Second
	longestPause  = 10 * time.Second
	longestTrust  = time.Minute
)

// waiting is what is known of a gang between two attempts to plan it.
type waiting struct {
	// reason is what the last attempt came to, at that time.
	reason string
	at     time.Time
	// tried is set if that was an attempt to plan it, and misfit if there was no room. incomplete is set if not enough of its
	// pods could be scheduled.
	tried, misfit, incomplete bool
	// verdict is what was found out since about who could be evicted for it.
	verdict Verdict
	// ordered is set if it may fit because some other pod has a node.
	ordered bool
	// pause is how long after that the next attempt may be, if something has happened by which the gang may fit (stirred),
	// and later how long after that it is even if nothing has, 0 for never. timer is set if the gang is tried again when it is due.
	pause, later time.Duration
	stirred      bool
	timer        *time.Timer
	due          time.Time
	// took is how long the last attempt took that planned the gang in vain, 0 if that was none. A gang that took some time
	// is planned again when it has a turn; queued is set if it waits for one.
	took         time.Duration
	turn, queued bool
	// calls is how often pods were woken since one of the gang was tried.
	calls int
	// missed is set if pods were rejected because others of the gang were being scheduled.
	missed bool
	// failures is how many plans in a row could not be carried out.
	failures int
	// told is when all pods were woken to say why the gang waits, tellPause after what time that may happen again, and telling
	// is set if it will.
	told      time.Time
	tellPause time.Duration
	telling   *time.Timer
}

// refusal is why a gang is not scheduled for the moment.
type refusal struct {
	reason string
	// tried is set if it was planned, or need not be.
	tried bool
	// misfit is set if there is no room for the gang: this is no error, and it is no question of steps.
	misfit bool
	// incomplete is set if not enough of its pods can be scheduled.
	incomplete bool
	// ordered is set if one of its pods wants to be where others are.
	ordered bool
	// took is how long it took to find out.
	took time.Duration
	// pause is how long it is not worth another attempt, whatever happens. For those that were tried that follows from took.
	pause time.Duration
	// later is after which time it is worth another attempt even if nothing happens, 0 for never.
	later time.Duration
}

// answer notes that a pod of a gang is tried, and reports whether something has happened by which the gang may fit. What
// happens from now on may be missed by the attempt.
func (c *Conductor) answer(gang string) (stirred bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(gang) // What happens while it is planned for the first time is to be noted as well.
	if w.calls > 0 && w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	stirred = w.stirred
	w.calls, w.stirred = 0, false
	return stirred
}

// misses reports whether a gang's plan is being carried out. A pod without a seat is tried again after that.
func (c *Conductor) misses(gang string) bool {
	if _, carried := c.roster.Carried(gang); !carried {
		return false
	}
	c.mutex.Lock()
	c.waitingFor(gang).missed = true
	c.mutex.Unlock()
	_, carried := c.roster.Carried(gang) // Once more: whoever ends it looks at what was noted after that.
	return carried
}

// known returns why a gang is not scheduled for the moment if nothing has happened since that was found out, or if that
// was a moment ago; else "", and the gang is to be planned.
func (c *Conductor) known(gang string, stirred bool) string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[gang]
	if w == nil || !w.tried && !w.incomplete {
		return ""
	}
	since := time.Since(w.at)
	switch {
	case since < w.pause:
		// Of a pod that is tried nothing is known if the gang was incomplete: it may have been the one that was missing.
		w.stirred = w.stirred || stirred || w.incomplete
	case !w.tried || stirred || since >= longestMemory:
		if c.mayPlan(w) {
			return ""
		}
		w.stirred = true
	}
	c.sleep(gang, w)
	return w.reason
}

// refuse remembers why a gang is not scheduled, and returns the reason as an error. All other pods of it are to say so.
func (c *Conductor) refuse(gang string, pod *v1.Pod, r refusal) error {
	c.mutex.Lock()
	w := c.waitingFor(gang)
	// How many pods are held back, and why, depends on who asks.
	isNews := w.reason != r.reason && !(w.incomplete && r.incomplete)
	w.reason, w.tried, w.misfit, w.incomplete, w.ordered, w.at = r.reason, r.tried, r.misfit, r.incomplete, r.ordered, time.Now()
	w.verdict = Verdict{}
	w.pause, w.later = c.pauseAfter(r), r.later
	if w.later == 0 && r.tried {
		w.later = longestTrust
	}
	c.charge(w, r)
	c.sleep(gang, w)
	tell := func() {}
	if isNews {
		tell = c.tell(gang, w, pod.UID)
	}
	c.mutex.Unlock()
	tell()
	return errors.New(r.reason)
}

// pauseAfter needs the mutex.
func (c *Conductor) pauseAfter(r refusal) time.Duration {
	pause := partForGangs * r.took
	switch {
	case r.incomplete:
		return min(pause, longestPause)
	case !r.tried:
		return r.pause
	case c.times.Backoff > 0:
		return c.times.Backoff
	}
	return min(max(shortestPause, pause), longestPause)
}

// waitingFor needs the mutex.
func (c *Conductor) waitingFor(gang string) *waiting {
	w := c.gangs[gang]
	if w == nil {
		w = &waiting{}
		c.gangs[gang] = w
	}
	return w
}

// retry has a gang whose plan could not be carried out planned again after a pause, which is longer each time.
func (c *Conductor) retry(gang, why string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(gang)
	w.reason = "group " + gang + ": " + why + "; all of its pods are planned again in a moment"
	w.at, w.tried, w.misfit, w.incomplete = time.Now(), true, false, false
	w.pause, w.later = max(c.times.Backoff, backOff(w.failures)), 0
	w.failures++
	w.took = 0 // There was room: that is not planning in vain.
	c.stir(gang, w)
}

// begun forgets why a gang waited: it is planned.
func (c *Conductor) begun(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[gang]
	if w == nil {
		return
	}
	c.drop(gang, w)
	if w.failures > 0 {
		c.waitingFor(gang).failures = w.failures
	}
}

// succeeded notes that a gang runs.
func (c *Conductor) succeeded(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[gang]; w != nil {
		w.failures = 0
	}
}

// letGo forgets why a gang waited, of which enough pods run, and has each of those that waited for that try for itself.
func (c *Conductor) letGo(gang string, pod *v1.Pod) {
	c.mutex.Lock()
	w := c.gangs[gang]
	waited := w != nil && (w.reason != "" || w.missed)
	if w != nil {
		c.drop(gang, w)
	}
	c.mutex.Unlock()
	if waited {
		c.activate(c.waitingPods(gang, all, pod.UID))
	}
}

// drop forgets a gang. It needs the mutex.
func (c *Conductor) drop(gang string, w *waiting) {
	for _, timer := range []*time.Timer{w.timer, w.telling} {
		if timer != nil {
			timer.Stop()
		}
	}
	delete(c.gangs, gang)
}

// Verdict is what is said of those who could be evicted for a gang; the zero Verdict is none.
type Verdict struct {
	Said string
	// Hopeless is set if nothing is kept for the gang.
	Hopeless bool
}

// Verdict returns what SetVerdict was given since a pod's gang was planned last: it is the same for all of its pods.
func (c *Conductor) Verdict(pod *v1.Pod) Verdict {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[coscheduling.KeyOf(pod)]; w != nil {
		return w.verdict
	}
	return Verdict{}
}

// SetVerdict notes what was found out about who could be evicted for a pod's gang.
func (c *Conductor) SetVerdict(pod *v1.Pod, verdict Verdict) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[coscheduling.KeyOf(pod)]; w != nil {
		w.verdict = verdict
	}
}

// Misfit reports whether there was no room for a pod's gang when that was planned last.
func (c *Conductor) Misfit(pod *v1.Pod) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[coscheduling.KeyOf(pod)]
	return w != nil && w.misfit
}
