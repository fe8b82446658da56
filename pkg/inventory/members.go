package inventory

import (
	"cmp"
	"hash/maphash"
)

// members are the slices of a pool by name, nil if there are none. They are immutable: with
// one slice more, or less, all but a path of the tree is shared. So what an event costs does
// not depend on how many slices the pool has, and every version of the pool can still be
// built later, if anybody asks for it.
//
// It is a search tree by name which is also a heap by a hash of the name, so that it is
// balanced whatever the names are (a treap).
type members struct {
	slice       *Slice
	priority    uint64
	left, right *members
	all         tally
}

// tally is what is known of some slices of a pool without looking at each.
type tally struct {
	// count is how many there are, local how many of them are for one node alone.
	count, local int
	// generation is the newest one, targeting how many slices of it there are, and wanted
	// how many there should be, as the first of these by name says.
	generation int64
	targeting  int
	wanted     int64
	// drawing is how many slices of that generation have devices that consume counters.
	drawing int
}

func tallyOf(slice *Slice) tally {
	t := tally{count: 1, generation: slice.generation(), targeting: 1, wanted: slice.Spec.Pool.ResourceSliceCount}
	if slice.localTo() != "" {
		t.local = 1
	}
	if slice.draws {
		t.drawing = 1
	}
	return t
}

// plus adds slices that come later by name.
func (t tally) plus(next tally) tally {
	sum := tally{t.count + next.count, t.local + next.local, t.generation, t.targeting, t.wanted, t.drawing}
	switch {
	case t.count == 0 || next.count > 0 && next.generation > t.generation:
		sum.generation, sum.targeting, sum.wanted, sum.drawing = next.generation, next.targeting, next.wanted, next.drawing
	case next.count > 0 && next.generation == t.generation:
		sum.targeting, sum.drawing = t.targeting+next.targeting, t.drawing+next.drawing
	}
	return sum
}

func newMembers(slice *Slice, priority uint64, left, right *members) *members {
	return &members{slice, priority, left, right, left.tally().plus(tallyOf(slice)).plus(right.tally())}
}

func (m *members) tally() tally {
	if m == nil {
		return tally{}
	}
	return m.all
}

// with returns the slices with one that is new, or takes the place of that of its name.
func (m *members) with(slice *Slice) *members {
	return m.insert(slice, maphash.String(fingerprintSeed, slice.Name))
}

func (m *members) insert(slice *Slice, priority uint64) *members {
	if m == nil {
		return newMembers(slice, priority, nil, nil)
	}
	switch order := cmp.Compare(slice.Name, m.slice.Name); {
	case order == 0:
		return newMembers(slice, m.priority, m.left, m.right)
	case priority > m.priority:
		// If the name was there, it would not be below a smaller hash.
		left, right := m.split(slice.Name)
		return newMembers(slice, priority, left, right)
	case order < 0:
		return newMembers(m.slice, m.priority, m.left.insert(slice, priority), m.right)
	default:
		return newMembers(m.slice, m.priority, m.left, m.right.insert(slice, priority))
	}
}

// split returns the slices before and after a name that is not there.
func (m *members) split(name string) (before, after *members) {
	if m == nil {
		return nil, nil
	}
	if name < m.slice.Name {
		before, after = m.left.split(name)
		return before, newMembers(m.slice, m.priority, after, m.right)
	}
	before, after = m.right.split(name)
	return newMembers(m.slice, m.priority, m.left, before), after
}

// without returns the slices without that of a name, if it is there.
func (m *members) without(name string) *members {
	if m == nil {
		return nil
	}
	switch order := cmp.Compare(name, m.slice.Name); {
	case order < 0:
		return newMembers(m.slice, m.priority, m.left.without(name), m.right)
	case order > 0:
		return newMembers(m.slice, m.priority, m.left, m.right.without(name))
	default:
		return join(m.left, m.right)
	}
}

// join returns all of some slices and of others that come later by name.
func join(before, after *members) *members {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.priority > after.priority:
		return newMembers(before.slice, before.priority, before.left, join(before.right, after))
	default:
		return newMembers(after.slice, after.priority, join(before, after.left), after.right)
	}
}

// appendTo appends the slices to a list, sorted by name.
func (m *members) appendTo(list []*Slice) []*Slice {
	if m == nil {
		return list
	}
	return m.right.appendTo(append(m.left.appendTo(list), m.slice))
}
