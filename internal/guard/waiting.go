package guard

import (
	"container/list"
	"sync"
)

// maxWaiting is how many requests may wait. Where there are more, the one that has waited longest
// has to give up: what it waits for usually comes within milliseconds, or never.
const maxWaiting = 256

// waiting are the requests that wait for something to change. The zero value has none. It is safe
// for concurrent use.
type waiting struct {
	mutex   sync.Mutex
	byClaim map[string]map[*waiter]struct{}
	byAge   list.List // of *waiter, the oldest one first
}

// waiter is a request that waits.
type waiter struct {
	claim  string
	place  *list.Element
	giveUp func()
	// changed gets a value when the request is to be looked at again.
	changed chan struct{}
}

// join adds a request about a claim, by "namespace/name". giveUp is called if there are too many.
func (l *waiting) join(claim string, giveUp func()) *waiter {
	w := &waiter{claim: claim, giveUp: giveUp, changed: make(chan struct{}, 1)}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.byAge.Len() >= maxWaiting {
		oldest := l.byAge.Front().Value.(*waiter)
		l.remove(oldest)
		oldest.giveUp()
	}
	if l.byClaim == nil {
		l.byClaim = make(map[string]map[*waiter]struct{})
	}
	if l.byClaim[claim] == nil {
		l.byClaim[claim] = make(map[*waiter]struct{})
	}
	l.byClaim[claim][w] = struct{}{}
	w.place = l.byAge.PushBack(w)
	return w
}

// leave is the end of join.
func (l *waiting) leave(w *waiter) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.remove(w)
}

// remove does nothing if the request was removed before.
func (l *waiting) remove(w *waiter) {
	if w.place == nil {
		return
	}
	l.byAge.Remove(w.place)
	w.place = nil
	if delete(l.byClaim[w.claim], w); len(l.byClaim[w.claim]) == 0 {
		delete(l.byClaim, w.claim)
	}
}

// claimChanged wakes those who have asked about a claim.
func (l *waiting) claimChanged(claim string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for w := range l.byClaim[claim] {
		w.wake()
	}
}

// allChanged wakes everybody.
func (l *waiting) allChanged() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for place := l.byAge.Front(); place != nil; place = place.Next() {
		place.Value.(*waiter).wake()
	}
}

func (w *waiter) wake() {
	select {
	case w.changed <- struct{}{}:
	default: // It is going to look anyway.
	}
}
