package coordinator

import (
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	requeue "github.com/quartermaster-dra/quartermaster/internal/queue"
)

// shortestPause and longestPause bound the pause of a gang after a failed attempt to plan it. longestTrust limits how long
// a gang is not planned again because no known event may have helped it: an event may be missing. Coordinator.takeTurn
// ensures that planning in vain leaves time for other pods, however many gangs wait.
const (
	shortestPause = requeue.FirstPause
	longestPause  = requeue.LongestPause
	longestTrust  = time.Minute
)

// waiting is the state of a gang between two attempts to plan it.
type waiting struct {
	// reason is the result of the last attempt, and at its time. It has been the same since then.
	reason    string
	at, since time.Time
	// tried is set if that attempt planned the gang, or if its result was clear without a plan. misfit is set if there was
	// no room. incomplete is set if too few of its pods could be scheduled.
	tried, misfit, incomplete bool
	// lacking is set if the gang lacks its PodGroup or some of its pods: nothing that happens to others helps it.
	lacking bool
	// verdict is the result of the search for pods to evict for the gang since then.
	verdict Verdict
	// ordered is set if the gang may fit because some other pod has a node.
	ordered bool
	// pause is the time after at before which the gang is not tried again, even if it is stirred: an event has happened
	// that may help it. later is the time after at when it is tried again even without events, 0 for never. timer is set
	// while the next attempt is scheduled, and due is its time.
	pause, later time.Duration
	stirred      bool
	timer        *time.Timer
	due          time.Time
	// took is the time for which the last attempt planned the gang in vain, 0 if it did not plan. A gang with such a time
	// needs a turn to be planned again: turn is set if it has one, and queued while it waits for one.
	took         time.Duration
	turn, queued bool
	// calls is the number of times that pods were woken since a pod of the gang was last tried.
	calls int
	// missed is set if pods were rejected because others of the gang were being scheduled.
	missed bool
	// failures is the number of plans in a row that could not be carried out.
	failures int
	// again is the number of refusals in a row that may end although nothing happens.
	again int
	// told is when all pods were last woken to report why the gang waits. tellPause is the time before that may happen
	// again, and telling is set while it is scheduled.
	told      time.Time
	tellPause time.Duration
	telling   *time.Timer
}

// A refusal is the reason why a gang is not scheduled for the moment.
type refusal struct {
	reason string
	// tried is set if the gang was planned, or if the result was clear without a plan.
	tried bool
	// misfit is set if there is no room for the gang. It is not set after an error, or if the planner gave up early.
	misfit bool
	// incomplete is set if too few of its pods can be scheduled.
	incomplete bool
	// ordered is set if the place of one of its pods depends on where other pods are.
	ordered bool
	// took is the time that the attempt took.
	took time.Duration
	// pause is the time before which another attempt is useless, whatever happens. If tried or incomplete is set,
	// pauseAfter determines it instead.
	pause time.Duration
	// missing is set if there is no valid PodGroup, few if too few of its pods exist.
	missing, few bool
	// again is set if the next attempt may have another result although nothing happens, after an error for example. The
	// pause before it grows with each attempt in a row.
	again bool
}

// answer records that a pod of a gang is tried, and reports whether an event has happened that may help the gang. The
// attempt may miss events from now on.
func (c *Coordinator) answer(gang string) (stirred bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(gang) // Events during the first plan must be recorded, too.
	if w.calls > 0 && w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	stirred = w.stirred
	w.calls, w.stirred, w.lacking = 0, false, false
	return stirred
}

// misses reports whether a gang's plan is being carried out. A pod without an assignment is tried again after that.
func (c *Coordinator) misses(gang string) bool {
	if _, carried := c.progress.Carried(gang); !carried {
		return false
	}
	c.mutex.Lock()
	c.waitingFor(gang).missed = true
	c.mutex.Unlock()
	_, carried := c.progress.Carried(gang) // Check again: a plan that ended before missed was set did not consider it.
	return carried
}

// known returns why a gang is not scheduled for the moment, if no event may have helped it since that was determined, or if
// that was a moment ago. Otherwise it returns "", and the gang must be planned.
func (c *Coordinator) known(gang string, stirred bool) string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[gang]
	if w == nil || !w.tried && !w.incomplete {
		return ""
	}
	since := time.Since(w.at)
	switch {
	case since < w.pause:
		// If the gang was incomplete, the pod that is tried may be the one that was missing.
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

// refuse stores why a gang is not scheduled, and returns the reason as an error. If it is new, all other pods of the gang
// are tried to report it.
func (c *Coordinator) refuse(gang string, pod *v1.Pod, r refusal) error {
	c.mutex.Lock()
	w := c.waitingFor(gang)
	// The number of held pods and the reason depend on the pod that asks.
	isNews := w.reason != r.reason && !(w.incomplete && r.incomplete)
	if isNews {
		w.since = time.Now()
	}
	w.reason, w.tried, w.misfit, w.incomplete, w.ordered, w.at = r.reason, r.tried, r.misfit, r.incomplete, r.ordered, time.Now()
	w.lacking = r.missing || r.few
	w.verdict = Verdict{}
	w.pause, w.later = c.pauseAfter(r), 0
	if r.again {
		w.again++
	} else {
		w.again = 0
	}
	switch {
	case r.again:
		w.later = requeue.Pause(w.again)
	case r.missing:
		w.later = max(lookAgain, min(time.Since(w.since), longestTrust), perLook*time.Duration(len(c.gangs)))
	case r.tried:
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

// pauseAfter returns the pause after a refusal. The caller must hold the mutex.
func (c *Coordinator) pauseAfter(r refusal) time.Duration {
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

// waitingFor returns the state of a gang, and creates it if necessary. The caller must hold the mutex.
func (c *Coordinator) waitingFor(gang string) *waiting {
	w := c.gangs[gang]
	if w == nil {
		w = &waiting{}
		c.gangs[gang] = w
	}
	return w
}

// retry schedules another plan for a gang whose plan could not be carried out. The pause before it grows with each failure.
func (c *Coordinator) retry(gang, why string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(gang)
	w.reason = "group " + gang + ": " + why + "; all of its pods are planned again in a moment"
	w.at, w.tried, w.misfit, w.incomplete = time.Now(), true, false, false
	w.failures++
	w.pause, w.later = max(c.times.Backoff, requeue.Pause(w.failures)), 0
	w.took = 0 // There was room: that is not planning in vain.
	c.stir(gang, w)
}

// begun forgets why a gang waited, because it is planned now.
func (c *Coordinator) begun(gang string) {
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

// succeeded resets the failures of a gang that runs. Its other pods may have been rejected with it before it was planned.
func (c *Coordinator) succeeded(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(gang)
	w.failures, w.missed = 0, true
}

// letGo forgets why a gang waited, because enough of its pods run. It retries the pods that waited; each is scheduled on its own.
func (c *Coordinator) letGo(gang string, pod *v1.Pod) {
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

// drop forgets a gang. The caller must hold the mutex.
func (c *Coordinator) drop(gang string, w *waiting) {
	for _, timer := range []*time.Timer{w.timer, w.telling} {
		if timer != nil {
			timer.Stop()
		}
	}
	delete(c.gangs, gang)
}

// A Verdict is the result of the search for pods to evict for a gang. The zero Verdict means that there was no search.
type Verdict struct {
	Said string
	// Hopeless is set if nothing is kept for the gang, because no eviction helps it.
	Hopeless bool
}

// Verdict returns the Verdict that was set since a pod's gang was last planned. It is the same for all pods of the gang.
func (c *Coordinator) Verdict(pod *v1.Pod) Verdict {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[crd.KeyOf(pod)]; w != nil {
		return w.verdict
	}
	return Verdict{}
}

// SetVerdict stores the result of the search for pods to evict for a pod's gang. If nothing is kept for the gang, its other
// nominated pods are tried, to end their nominations: the reason may be the same as before, so that nobody else tries them.
func (c *Coordinator) SetVerdict(pod *v1.Pod, verdict Verdict) {
	gang := crd.KeyOf(pod)
	c.mutex.Lock()
	if w := c.gangs[gang]; w != nil {
		w.verdict = verdict
	}
	c.mutex.Unlock()
	if !verdict.Hopeless {
		return
	}
	c.activate(slices.DeleteFunc(c.waitingPods(gang, all, pod.UID), func(other *v1.Pod) bool { return other.Status.NominatedNodeName == "" }))
}

// Misfit reports whether there was no room for a pod's gang when it was last planned.
func (c *Coordinator) Misfit(pod *v1.Pod) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[crd.KeyOf(pod)]
	return w != nil && w.misfit
}
