package coordinator

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

// partForGangs limits the time for planning gangs again that were planned in vain, to one part in partForGangs of the
// scheduler's time.
const partForGangs = 10

// charge accounts for the time that a gang was planned in vain. The caller must hold the mutex.
func (c *Coordinator) charge(w *waiting, r refusal) {
	before := time.Duration(0) // Charged when the gang got its turn.
	if w.turn {
		before = w.took
	}
	w.turn, w.queued, w.took = false, false, 0
	if r.tried {
		w.took = r.took
	}
	c.rest(w.took - before)
}

// TookMore charges a pod's gang for plans that were made after it had been planned in vain: those without pods that may be evicted.
func (c *Coordinator) TookMore(pod *v1.Pod, took time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if w := c.gangs[crd.KeyOf(pod)]; w != nil && w.took > 0 {
		w.took += took
		c.rest(took)
	}
}

// rest delays the next turn, so that other pods get their share of time for the given time of planning. The caller must
// hold the mutex.
func (c *Coordinator) rest(took time.Duration) {
	if now := time.Now(); c.rested.Before(now) {
		c.rested = now
	}
	c.rested = c.rested.Add(partForGangs * took)
}

// mayPlan reports whether a gang may be planned now. The caller must hold the mutex.
func (c *Coordinator) mayPlan(w *waiting) bool {
	return w.took == 0 || w.turn || !time.Now().Before(c.rested)
}

// takeTurn reports whether a gang may be woken and planned now. Otherwise it queues the gang, which is woken when it gets a
// turn. The caller must hold the mutex.
func (c *Coordinator) takeTurn(w *waiting) bool {
	switch {
	case w.took == 0 || w.turn:
		return true
	case c.turns == nil && c.mayPlan(w):
		c.giveTurn(w)
		return true
	}
	w.queued = true
	c.awaitTurn()
	return false
}

// giveTurn gives a gang a turn, and charges it for as much time as its last plan took. The caller must hold the mutex.
func (c *Coordinator) giveTurn(w *waiting) {
	w.turn, w.queued = true, false
	c.rest(w.took)
}

// awaitTurn starts the timer for the next turn. The caller must hold the mutex.
func (c *Coordinator) awaitTurn() {
	if c.turns == nil {
		c.turns = time.AfterFunc(max(0, time.Until(c.rested)), c.nextTurn)
	}
}

// nextTurn gives the next turn, and wakes the gang that gets it.
func (c *Coordinator) nextTurn() {
	c.mutex.Lock()
	c.turns = nil
	gang, w := c.next()
	if w != nil && time.Now().Before(c.rested) {
		c.awaitTurn() // A gang was planned meanwhile.
		w = nil
	}
	if w != nil {
		c.giveTurn(w)
		c.awaitTurn()
	}
	c.mutex.Unlock()
	if w != nil {
		c.wake(gang)
	}
}

// next returns the queued gang that gets the next turn. The namespace comes first whose gangs were not planned for the
// longest time, and in it the gang that was not planned for the longest time. The caller must hold the mutex.
func (c *Coordinator) next() (string, *waiting) {
	lately := make(map[string]time.Time)
	for gang, w := range c.gangs {
		if namespace := namespaceOf(gang); w.took > 0 && w.at.After(lately[namespace]) {
			lately[namespace] = w.at
		}
	}
	var gang string
	var first *waiting
	for key, w := range c.gangs {
		if !w.queued {
			continue
		}
		if first == nil {
			gang, first = key, w
			continue
		}
		order := lately[namespaceOf(key)].Compare(lately[namespaceOf(gang)])
		if order == 0 {
			order = w.at.Compare(first.at)
		}
		if order < 0 || order == 0 && key < gang {
			gang, first = key, w
		}
	}
	return gang, first
}

func namespaceOf(gang string) string {
	namespace, _, _ := strings.Cut(gang, "/")
	return namespace
}
