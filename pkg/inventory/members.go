package inventory

import (
	"cmp"
	"hash/maphash"
)

// members holds the slices of a pool by name, nil if there are none. It is immutable: a version
// with one slice more or less shares all but one path of the tree. So the cost of an event does not
// depend on the number of slices in the pool, and every version of the pool can still be built when
// it is needed.
//
// It is a search tree by name and also a heap by a hash of the name (a treap), so that it is
// balanced whatever the names are.
type members struct {
	slice       *Slice
	priority    uint64
	left, right *members
	all         tally
}

// tally summarises a subset of the slices of a pool.
type tally struct {
	// count is the number of slices, local the number of those that are for one node alone.
	count, local int
	// generation is the newest generation and targeting the number of its slices. wanted is the
	// resourceSliceCount of the first of these by name.
	generation int64
	targeting  int
	wanted     int64
	// drawing counts the slices of that generation with devices that consume counters.
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

// plus adds the tally of slices that come later by name.
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

// with returns the slices plus one that is new or replaces the one of the same name.
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
		// The name cannot be below this node: there its hash would not be greater.
		left, right := m.split(slice.Name)
		return newMembers(slice, priority, left, right)
	case order < 0:
		return newMembers(m.slice, m.priority, m.left.insert(slice, priority), m.right)
	default:
		return newMembers(m.slice, m.priority, m.left, m.right.insert(slice, priority))
	}
}

// split returns the slices before and after a name that is absent.
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

// without returns the slices except the one of a name, if present.
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

// join returns the union of slices and others that come later by name.
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
