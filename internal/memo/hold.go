package memo

import (
	"container/heap"
	"slices"
	"time"
)

// Hold protects the table for some time, even if others are used later, because its caller fills it
// gradually. Held tables take at most half of the memory; beyond that, the table held for the shortest time
// is forgotten first. The table held for the longest time always stays, even if it alone is too large: so the
// work on at least one table gets finished.
func (s *Table[T]) Hold(d time.Duration) {
	m, h := s.memory, &s.header
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if h.forgotten {
		return
	}
	h.heldUntil, h.finished = time.Now().Add(d), 0
	if h.index >= 0 {
		heap.Remove(&m.order, h.index)
		h.index = -1
		m.held = append(m.held, h)
		m.heldBytes += h.bytes
	}
}

// Finish ends the work on the table. A held table stays held until its next use or until its time is over, so
// that the goroutine that waits for the table can read it.
func (s *Table[T]) Finish() {
	m := s.memory
	m.mutex.Lock()
	defer m.mutex.Unlock()
	s.finished = m.clock.Add(1)
}

// releaseHeld returns to order the held tables whose time is over or that were used after Finish. The caller
// holds the mutex.
func (m *Memory) releaseHeld(now time.Time) {
	m.held = slices.DeleteFunc(m.held, func(h *header) bool {
		if now.Before(h.heldUntil) && (h.finished == 0 || h.used.Load() < h.finished) {
			return false
		}
		m.heldBytes -= h.bytes
		h.rank = h.used.Load()
		heap.Push(&m.order, h)
		return true
	})
}
