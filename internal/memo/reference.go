package memo

import "sync/atomic"

// A Reference caches the table for a key, so that it is not looked up each time. It keeps nothing that
// the memory has forgotten.
type Reference[T Finding[T]] struct {
	key   Key
	table atomic.Pointer[Table[T]]
}

// NewReference returns a reference to the table for a key, in any memory.
func NewReference[T Finding[T]](q Key) *Reference[T] {
	return &Reference[T]{key: q}
}

// Get returns the memory's finding about a subject.
func (r *Reference[T]) Get(m *Memory, subject *Subject) (finding T, found bool) {
	if s := r.table.Load(); s != nil && s.memory == m {
		if finding, found = s.Get(subject); found {
			return finding, true
		}
		if s.pages.Load() != nil {
			return finding, false
		}
	}
	s := Find[T](m, r.key)
	if s == nil {
		return finding, false
	}
	r.table.Store(s)
	return s.Get(subject)
}

// Put remembers a finding about a subject, see Table.Put.
func (r *Reference[T]) Put(m *Memory, subject *Subject, finding T) T {
	s := Open[T](m, r.key)
	r.table.Store(s)
	return s.Put(subject, finding)
}
