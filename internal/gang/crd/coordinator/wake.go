package coordinator

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	requeue "github.com/quartermaster-dra/quartermaster/internal/queue"
)

// sleep schedules the next attempt of a gang: after its pause if it was stirred since, otherwise later. The caller must
// hold the mutex.
func (c *Coordinator) sleep(gang string, w *waiting) {
	switch {
	case w.stirred:
		c.wakeAt(gang, w, w.at.Add(w.pause))
	case w.later > 0:
		c.wakeAt(gang, w, w.at.Add(max(w.pause, w.later)))
	}
}

// wakeAt retries a gang at the given time, unless that is scheduled for an earlier time. The caller must hold the mutex.
func (c *Coordinator) wakeAt(gang string, w *waiting, due time.Time) {
	if w.timer != nil {
		if !due.Before(w.due) {
			return
		}
		w.timer.Stop()
	}
	w.due = due
	w.timer = time.AfterFunc(max(0, time.Until(due)), func() { c.wake(gang) })
}

// wake retries a gang by activating one of its pods. If that pod is not tried, because it is not in the queue at the moment
// or another plugin holds it back, all pods of the gang are activated a while later.
func (c *Coordinator) wake(gang string) {
	c.mutex.Lock()
	w := c.gangs[gang]
	if w == nil {
		c.mutex.Unlock()
		return
	}
	w.timer = nil
	if time.Since(w.at) < w.pause {
		c.sleep(gang, w) // It was tried after this wake-up was scheduled.
		c.mutex.Unlock()
		return
	}
	if !c.takeTurn(w) {
		c.mutex.Unlock()
		return
	}
	w.pause, w.later = 0, 0
	w.stirred = true
	c.mutex.Unlock()
	if _, carried := c.progress.Carried(gang); carried {
		return // When the plan ends, the gang is stirred.
	}
	c.mutex.Lock()
	calls := w.calls
	w.calls++
	c.mutex.Unlock()
	most := 1
	if calls > 0 {
		most = all
	}
	pods := c.waitingPods(gang, most, "")
	c.activate(pods)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case c.gangs[gang] != w || w.timer != nil:
	case len(pods) == 0:
		c.drop(gang, w)
	case w.calls > 0:
		c.wakeAt(gang, w, time.Now().Add(requeue.Pause(w.calls)))
	}
}

// all makes waitingPods return all pods.
const all = 0

// waitingPods returns at most so many pods of a gang, or all, that wait for a node and can be tried, without the pod except.
func (c *Coordinator) waitingPods(gang string, most int, except types.UID) (pods []*v1.Pod) {
	for _, pod := range c.podsOf(gang) {
		if pod.UID == except || pod.Spec.NodeName != "" || dra.HasEnded(pod) || isHeld(pod) || c.handle(pod) == nil || c.progress.Of(pod.UID) != nil {
			continue
		}
		if placed, undoing := c.placeOf(pod); placed != nil && !undoing || c.Claims.Check(pod) != nil {
			continue
		}
		if pods = append(pods, pod); len(pods) == most {
			break
		}
	}
	return pods
}

// Stir records an event that may help a gang to fit, or may help its pods.
func (c *Coordinator) Stir(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stir(gang, c.waitingFor(gang))
}

// stirWaiting does the same as Stir for a gang that waits, and nothing for other gangs.
func (c *Coordinator) stirWaiting(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[gang]; w != nil {
		c.stir(gang, w)
	}
}

// WakeIn has a gang that waits tried again after some time.
func (c *Coordinator) WakeIn(gang string, d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[gang]; w != nil {
		due := time.Now().Add(d)
		if paused := w.at.Add(w.pause); paused.After(due) {
			due = paused
		}
		c.wakeAt(gang, w, due)
	}
}

// StirAll stirs all gangs that wait and have their PodGroup and enough pods.
func (c *Coordinator) StirAll() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for gang, w := range c.gangs {
		if !w.lacking {
			c.stir(gang, w)
		}
	}
}

// stir does the same as Stir. The caller must hold the mutex.
func (c *Coordinator) stir(gang string, w *waiting) {
	w.stirred = true
	c.sleep(gang, w)
}

// stirOrdered stirs the gangs that may fit because another pod has a node: those with pods that must be near others.
func (c *Coordinator) stirOrdered() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for gang, w := range c.gangs {
		if w.ordered {
			c.stir(gang, w)
		}
	}
}

// tell makes all pods of a gang, except for the one that found out, report why the gang waits. The caller must hold the
// mutex, and must call the returned function without it.
func (c *Coordinator) tell(gang string, w *waiting, except types.UID) func() {
	if w.telling != nil {
		return func() {}
	}
	if wait := time.Until(w.told.Add(w.tellPause)); wait > 0 {
		w.telling = time.AfterFunc(wait, func() { c.tellNow(gang, "") })
		return func() {}
	}
	return func() { c.tellNow(gang, except) }
}

// timePerTold is the time for a scheduler to try a pod in vain and for the API server to store why, with ample room for
// other work.
const timePerTold = 10 * time.Millisecond

func (c *Coordinator) tellNow(gang string, except types.UID) {
	if _, carried := c.progress.Carried(gang); carried {
		return
	}
	pods := c.waitingPods(gang, all, except)
	c.mutex.Lock()
	if w := c.gangs[gang]; w != nil {
		w.telling, w.told = nil, time.Now()
		w.tellPause = min(max(shortestPause, timePerTold*time.Duration(len(pods))), longestPause)
	}
	c.mutex.Unlock()
	c.activate(pods)
}
