package allocationlog

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// expected holds the announcements of a namespace that count, and those that count once their
// author has allocated a claim. Finding those that count takes no longer if users protect many
// claims and never allocate them.
//
// It is safe for concurrent use, so that readers can drop announcements that are too old to count.
type expected struct {
	mutex sync.Mutex
	// believed holds the announcements by authors, oldest first.
	believed announcements
	// others holds the announcements of field managers that have not allocated a claim.
	others map[string]sets.Set[*announcement]
}

func newExpected() *expected {
	return &expected{others: make(map[string]sets.Set[*announcement])}
}

// learn must be called when a field manager has allocated a claim for the first time.
func (e *expected) learn(manager string) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for a := range e.others[manager] {
		e.drop(a)
		heap.Push(&e.believed, a)
	}
}

// add adds an announcement. It reports whether the announcement counts, because one of the authors
// made it.
func (e *expected) add(a *announcement, authors sets.Set[string], now time.Time) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	switch {
	case a.expired(now):
		return false
	case authors.HasAny(a.by...):
		heap.Push(&e.believed, a)
		return true
	}
	for _, manager := range a.by {
		if e.others[manager] == nil {
			e.others[manager] = sets.New[*announcement]()
		}
		e.others[manager].Insert(a)
	}
	return false
}

// remove removes an announcement, if present.
func (e *expected) remove(a *announcement) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if a.position >= 0 {
		heap.Remove(&e.believed, a.position)
	}
	e.drop(a)
}

// drop removes an announcement from others.
func (e *expected) drop(a *announcement) {
	for _, manager := range a.by {
		if e.others[manager].Delete(a); len(e.others[manager]) == 0 {
			delete(e.others, manager)
		}
	}
}

// oldest returns the oldest announcement that counts, nil if there is none.
func (e *expected) oldest(now time.Time) *announcement {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.expire(now)
	if len(e.believed) == 0 {
		return nil
	}
	return e.believed[0]
}

// all returns all announcements that count. The order is undefined.
func (e *expected) all(now time.Time) []*announcement {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.expire(now)
	return slices.Clone(e.believed)
}

func (e *expected) expire(now time.Time) {
	for len(e.believed) > 0 && e.believed[0].expired(now) {
		heap.Pop(&e.believed)
	}
}

// announcements is a heap, by time.
type announcements []*announcement

func (l announcements) Len() int           { return len(l) }
func (l announcements) Less(i, j int) bool { return l[i].since.Before(l[j].since) }

func (l announcements) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].position, l[j].position = i, j
}

func (l *announcements) Push(added any) {
	a := added.(*announcement)
	a.position = len(*l)
	*l = append(*l, a)
}

func (l *announcements) Pop() any {
	last := len(*l) - 1
	a := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	a.position = -1
	return a
}
