package recall

import (
	"container/heap"
	"slices"
	"time"
)

// Hold keeps the sheet for some time even if others were used since, because somebody
// works on it bit by bit. Sheets that are held take half of the memory at most; beyond that,
// those are forgotten first that are held for the shortest time. The one held for longest
// stays in any case, even if it alone is too large: so whatever is begun comes to an end.
func (s *Sheet[T]) Hold(d time.Duration) {
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

// Finish says that nobody works on the sheet any more. If it is held, it stays so until
// whoever waits for that uses it, or until the time is over.
func (s *Sheet[T]) Finish() {
	m := s.memory
	m.mutex.Lock()
	defer m.mutex.Unlock()
	s.finished = m.clock.Add(1)
}

// releaseHeld needs the mutex.
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
