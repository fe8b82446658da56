package memo

import (
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// DefaultBound is the default limit of a memory, in bytes.
const DefaultBound = 64 << 20

// Shared is the memory for all callers without one of their own, for example short-lived allocators.
var Shared = New(DefaultBound)

// A Memory holds tables that together take a bounded number of bytes. It is safe for concurrent use.
type Memory struct {
	// clock is a logical clock that orders uses; it advances whenever something is remembered.
	clock atomic.Uint64

	mutex  sync.Mutex
	bound  int
	taken  int
	tables map[Key]table
	// order holds the tables that are not held, the least recently used first.
	order queue
	// held lists the held tables in the order in which Hold began; heldBytes is their total size.
	held      []*header
	heldBytes int
}

// A Key identifies a table. Its kind determines the type of the table's findings.
type Key struct {
	Kind Kind
	Text string
}

// Kind distinguishes questions with the same text.
type Kind string

// table is a Table of any type.
type table interface {
	head() *header
	forget()
}

// header is the memory's record of a table.
type header struct {
	memory *Memory
	key    Key
	// used is the time of the memory's clock when the table was last used.
	used atomic.Uint64

	// The memory's mutex guards all further fields.

	bytes     int
	forgotten bool
	// rank is the value of used when the table got its position in order. index is that position, -1 while
	// the table is held.
	rank  uint64
	index int
	// A table is held until heldUntil, or until it is used at or after finished if that is not 0.
	heldUntil time.Time
	finished  uint64
}

// headerSize is the size in bytes of an empty table, including its entry in tables.
const headerSize = 640 + firstPages*int(unsafe.Sizeof(uintptr(0)))

// New returns a memory that takes at most bound bytes.
func New(bound int) *Memory {
	return &Memory{bound: bound, tables: make(map[Key]table)}
}

// SetBound changes the memory's limit, and evicts tables that no longer fit.
func (m *Memory) SetBound(bytes int) {
	m.mutex.Lock()
	m.bound = bytes
	victims := m.shrink()
	m.mutex.Unlock()
	forget(victims)
}

// Bound returns the memory's limit in bytes.
func (m *Memory) Bound() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.bound
}

// Taken returns the number of bytes that the memory takes.
func (m *Memory) Taken() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.taken
}

// Find returns the table for a key, or nil if there is none.
func Find[T Finding[T]](m *Memory, q Key) *Table[T] {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	s, _ := m.tables[q].(*Table[T])
	return s
}

// Open returns the table for a key, and creates it if there is none. The table may be forgotten at any
// time: then it finds nothing and remembers nothing.
func Open[T Finding[T]](m *Memory, q Key) *Table[T] {
	m.mutex.Lock()
	s, _ := m.tables[q].(*Table[T])
	if s != nil {
		m.mutex.Unlock()
		return s
	}
	s = &Table[T]{header: header{memory: m, key: q}, byHash: make(map[uint64]uint32)}
	pages := make([]atomic.Pointer[page], firstPages)
	s.pages.Store(&pages)
	s.findings.Store(new([]T))
	s.used.Store(m.clock.Add(1))
	s.rank = s.used.Load()
	m.tables[q] = s
	heap.Push(&m.order, &s.header)
	victims := m.add(&s.header, headerSize+len(q.Text))
	m.mutex.Unlock()
	forget(victims)
	return s
}

// touch marks the table as used now.
func (h *header) touch() {
	if now := h.memory.clock.Load(); h.used.Load() != now {
		h.used.Store(now)
	}
}

// charge marks the table as used and adds to its size.
func (m *Memory) charge(h *header, bytes int) {
	if bytes == 0 {
		h.touch()
		return
	}
	h.used.Store(m.clock.Add(1))
	m.mutex.Lock()
	victims := m.add(h, bytes)
	m.mutex.Unlock()
	forget(victims)
}

// add adds to the table's size and returns the tables that the caller must forget for that. The caller holds
// the mutex.
func (m *Memory) add(h *header, bytes int) []table {
	if h.forgotten {
		return nil
	}
	h.bytes += bytes
	m.taken += bytes
	if h.index < 0 {
		m.heldBytes += bytes
	}
	return m.shrink()
}

// shrink removes tables until the rest fit, and returns them. The caller holds the mutex.
func (m *Memory) shrink() (victims []table) {
	for m.taken > m.bound {
		victim := m.leastWanted()
		if victim == nil {
			break
		}
		victims = append(victims, m.tables[victim.key])
		m.remove(victim)
	}
	return victims
}

func (m *Memory) remove(h *header) {
	if h.index < 0 {
		m.held = slices.DeleteFunc(m.held, func(other *header) bool { return other == h })
		m.heldBytes -= h.bytes
	} else {
		heap.Remove(&m.order, h.index)
	}
	delete(m.tables, h.key)
	m.taken -= h.bytes
	h.forgotten = true
}

func forget(victims []table) {
	for _, s := range victims {
		s.forget()
	}
}

// leastWanted returns the table to forget first, or nil if none may be forgotten.
func (m *Memory) leastWanted() *header {
	m.releaseHeld(time.Now())
	if last := len(m.held) - 1; last > 0 && (m.heldBytes > m.bound/2 || len(m.order) == 0) {
		return m.held[last]
	}
	for len(m.order) > 0 {
		first := m.order[0]
		used := first.used.Load()
		if used == first.rank {
			return first
		}
		first.rank = used
		heap.Fix(&m.order, 0)
	}
	return nil
}

// queue implements heap.Interface.
type queue []*header

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].rank < q[j].rank }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(h any) {
	h.(*header).index = len(*q)
	*q = append(*q, h.(*header))
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return h
}
