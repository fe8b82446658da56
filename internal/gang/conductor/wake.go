package conductor

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
)

// The pause after an attempt to plan a gang that came to nothing. It is never shorter than ten times what the attempt
// took, for each gang that waits, so that gangs which do not fit cost the pods of others little.
const (
	shortestPause = time.Second
	longestPause  = 10 * time.Second
	timesOfPlan   = 10
)

// waiting is what is known of a gang between two attempts to plan it.
type waiting struct {
	// reason is what the last attempt came to, at that time.
	reason string
	at     time.Time
	// tried is set if that was an attempt to plan it, and misfit if there was no room.
	tried, misfit bool
	// pause is how long after that the next attempt may be, if something has happened by which the gang may fit (stirred),
	// and later how long after that it is even if nothing has, 0 for never. timer is set if the gang is tried again when it is due.
	pause, later time.Duration
	stirred      bool
	timer        *time.Timer
	due          time.Time
}

// known returns why a gang is not scheduled for the moment if nothing has happened since that was found out, or if that
// was a moment ago; else "", and the gang is to be planned.
func (c *Conductor) known(gang string) string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(gang)
	since := time.Since(w.at)
	if w.tried && (since < w.pause || !w.stirred && since < longestMemory) {
		c.sleep(gang, w)
		return w.reason
	}
	w.stirred = false // What happens from now on may be missed by the plan.
	return ""
}

// refusal is why a gang is not scheduled for the moment.
type refusal struct {
	reason string
	// tried is set if it was planned, or need not be.
	tried bool
	// misfit is set if there is no room for the gang: this is no error, and it is no question of steps.
	misfit bool
	// took is how long it took to find out.
	took time.Duration
	// later is after which time it is worth another attempt even if nothing happens, 0 for never.
	later time.Duration
	// news is set if all pods of the gang are to tell of it.
	news bool
}

// refuse remembers why a gang is not scheduled, and returns the reason as an error.
func (c *Conductor) refuse(gang string, r refusal) error {
	c.mutex.Lock()
	w := c.waitingFor(gang)
	isNews := r.news && w.reason != r.reason
	w.reason, w.tried, w.misfit, w.at = r.reason, r.tried, r.misfit, time.Now()
	w.pause, w.later = c.times.Backoff, r.later
	if w.pause == 0 && r.took > 0 {
		w.pause = min(max(shortestPause, timesOfPlan*r.took*time.Duration(len(c.gangs))), longestPause)
	}
	c.sleep(gang, w)
	c.mutex.Unlock()
	if isNews {
		c.activate(c.waitingPods(gang))
	}
	return errors.New(r.reason)
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

// retry has a gang whose plan could not be carried out planned again after a pause.
func (c *Conductor) retry(failed *roster.Seat) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(failed.Gang)
	w.reason = "group " + failed.Gang + ": its pod " + failed.Pod.Name + " could not be scheduled where that was planned; all of its pods are planned again in a moment"
	w.at, w.stirred, w.tried, w.misfit = time.Now(), true, true, false
	w.pause, w.later = max(c.times.Backoff, shortestPause), 0
	c.sleep(failed.Gang, w)
}

// sleep has a gang tried again when its pause is over, if something happened since, or else later. It needs the mutex.
func (c *Conductor) sleep(gang string, w *waiting) {
	var due time.Time
	switch {
	case w.stirred:
		due = w.at.Add(w.pause)
	case w.later > 0:
		due = w.at.Add(max(w.pause, w.later))
	default:
		return
	}
	if w.timer != nil && !due.Before(w.due) {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.due = due
	w.timer = time.AfterFunc(max(0, time.Until(due)), func() { c.wake(gang) })
}

// wake has a gang tried again. One of its pods does for all, unless there is something new to tell.
func (c *Conductor) wake(gang string) {
	c.mutex.Lock()
	if w := c.gangs[gang]; w != nil {
		w.timer, w.pause, w.later = nil, 0, 0
		w.stirred = true
	}
	c.mutex.Unlock()
	pods := c.waitingPods(gang)
	if len(pods) == 0 {
		c.forget(gang)
		return
	}
	c.activate(pods[:1])
}

// waitingPods returns the pods of a gang that wait for a node and can be tried.
func (c *Conductor) waitingPods(gang string) (pods []*v1.Pod) {
	for _, pod := range c.podsOf(gang) {
		if pod.Spec.NodeName == "" && !isOver(pod) && !isHeld(pod) && c.handle(pod) != nil && c.roster.Of(pod.UID) == nil && c.Ready(pod) == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// forget drops what is known of a gang that does not wait any more.
func (c *Conductor) forget(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[gang]; w != nil && w.timer != nil {
		w.timer.Stop()
	}
	delete(c.gangs, gang)
}

// Stir notes that something happened by which a gang may fit, or by which its pods may be helped.
func (c *Conductor) Stir(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.waitingFor(gang)
	w.stirred = true
	c.sleep(gang, w)
}

// StirAll does that for all gangs that wait.
func (c *Conductor) StirAll() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for gang, w := range c.gangs {
		w.stirred = true
		c.sleep(gang, w)
	}
}

// Misfit reports whether there was no room for a pod's gang when that was planned last.
func (c *Conductor) Misfit(pod *v1.Pod) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w := c.gangs[coscheduling.KeyOf(pod)]
	return w != nil && w.misfit
}
