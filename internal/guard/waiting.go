package guard

import (
	"container/list"
	"context"
	"sync"
)

// maxWaiting bounds the waiting requests. Beyond it, the oldest one must give up: the awaited change usually comes
// within milliseconds, or never.
const maxWaiting = 256

// waiting holds the requests that wait for a change. The zero value is empty. It is safe for concurrent use.
type waiting struct {
	mutex   sync.Mutex
	byClaim map[string]map[*waiter]struct{}
	byAge   list.List // of *waiter, the oldest one first
}

// waiter is a waiting request.
type waiter struct {
	claim  string
	place  *list.Element
	giveUp context.CancelFunc
	// changed receives a value when the request must be reviewed again.
	changed chan struct{}
}

// join adds a request about a claim ("namespace/name"). giveUp is called if there are too many.
func (l *waiting) join(claim string, giveUp context.CancelFunc) *waiter {
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

// leave removes a waiting request.
func (l *waiting) leave(w *waiter) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.remove(w)
}

// remove does nothing if the request was already removed.
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

// claimChanged wakes the requests about a claim.
func (l *waiting) claimChanged(claim string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for w := range l.byClaim[claim] {
		w.wake()
	}
}

// allChanged wakes all requests.
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
	default: // A wake-up is already pending.
	}
}
