package conductor

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sleep has a gang tried again when its pause is over, if something happened since, or else later. It needs the mutex.
func (c *Conductor) sleep(gang string, w *waiting) {
	switch {
	case w.stirred:
		c.wakeAt(gang, w, w.at.Add(w.pause))
	case w.later > 0:
		c.wakeAt(gang, w, w.at.Add(max(w.pause, w.later)))
	}
}

// backOff is a pause that doubles each time, up to longestPause, however often that is.
func backOff(times int) time.Duration {
	pause := shortestPause
	for ; times > 0 && pause < longestPause; times-- {
		pause *= 2
	}
	return min(pause, longestPause)
}

// wakeAt has a gang tried again at some time, or earlier. It needs the mutex.
func (c *Conductor) wakeAt(gang string, w *waiting, due time.Time) {
	if w.timer != nil {
		if !due.Before(w.due) {
			return
		}
		w.timer.Stop()
	}
	w.due = due
	w.timer = time.AfterFunc(max(0, time.Until(due)), func() { c.wake(gang) })
}

// wake has a gang tried again. One of its pods does for all. If that is not tried, because it is not in the queue at that
// moment or some other plugin holds it back, all of them are woken a while later.
func (c *Conductor) wake(gang string) {
	c.mutex.Lock()
	w := c.gangs[gang]
	if w == nil {
		c.mutex.Unlock()
		return
	}
	w.timer = nil
	if time.Since(w.at) < w.pause {
		c.sleep(gang, w) // It was tried since that was to be done now.
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
	if _, carried := c.roster.Carried(gang); carried {
		return // Once it is not, the gang is stirred.
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
		c.wakeAt(gang, w, time.Now().Add(backOff(calls)))
	}
}

// all has waitingPods return all of them.
const all = 0

// waitingPods returns pods of a gang that wait for a node and can be tried, except for one: at most so many, or all.
func (c *Conductor) waitingPods(gang string, most int, except types.UID) (pods []*v1.Pod) {
	for _, pod := range c.podsOf(gang) {
		if pod.UID == except || pod.Spec.NodeName != "" || isOver(pod) || isHeld(pod) || c.handle(pod) == nil || c.roster.Of(pod.UID) != nil {
			continue
		}
		if placed, undoing := c.placeOf(pod); placed != nil && !undoing || c.Ready(pod) != nil {
			continue
		}
		if pods = append(pods, pod); len(pods) == most {
			break
		}
	}
	return pods
}

// Stir notes that something happened by which a gang may fit, or by which its pods may be helped.
func (c *Conductor) Stir(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stir(gang, c.waitingFor(gang))
}

// stirWaiting is Stir if anything is known of the gang.
func (c *Conductor) stirWaiting(gang string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[gang]; w != nil {
		c.stir(gang, w)
	}
}

// StirAll does that for all gangs that wait.
func (c *Conductor) StirAll() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for gang, w := range c.gangs {
		c.stir(gang, w)
	}
}

// stir needs the mutex.
func (c *Conductor) stir(gang string, w *waiting) {
	w.stirred = true
	c.sleep(gang, w)
}

// stirOrdered stirs the gangs that may fit because one more pod has a node: those that want to be close to others.
func (c *Conductor) stirOrdered() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for gang, w := range c.gangs {
		if w.ordered {
			c.stir(gang, w)
		}
	}
}

// tell has all pods of a gang say why it waits, except for the one that found out. It needs the mutex, and returns what is to
// be done without it.
func (c *Conductor) tell(gang string, w *waiting, except types.UID) func() {
	if w.telling != nil {
		return func() {}
	}
	if wait := time.Until(w.told.Add(w.tellPause)); wait > 0 {
		w.telling = time.AfterFunc(wait, func() { c.tellNow(gang, "") })
		return func() {}
	}
	return func() { c.tellNow(gang, except) }
}

// timePerTold is what it takes a scheduler to try a pod in vain and write why, and the API server, with ample room for others.
const timePerTold = 10 * time.Millisecond

func (c *Conductor) tellNow(gang string, except types.UID) {
	if _, carried := c.roster.Carried(gang); carried {
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
