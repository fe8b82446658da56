package search

import (
	"encoding/binary"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// tooFew is a cheap bound: it reports whether fewer candidates are left than devices are missing. It returns
// false if a failing device lies ahead, because the answer is then that device's error.
func (s *Search) tooFew(r *task.Request, missing int, start cursor) bool {
	if s.unpruned {
		return false
	}
	free := 0
	for pool := start.pool; pool < len(s.pools); pool++ {
		c, taken := s.candidates(r, pool), s.taken.against(r, pool)
		from := start.in(pool)
		if c.failing.LenWithout(taken, from) > 0 {
			return false
		}
		if free += c.usable.LenWithout(taken, from); free >= missing {
			return false
		}
	}
	return true
}

// classes groups devices that are interchangeable in a search: the same requests can use them, they look the same
// to all constraints, and they draw the same from the same counters, or from counter sets that are interchangeable
// themselves. If a search with one of them in some place has no solution, it has none with another, because the
// two could be swapped in a solution. So the search tries each class only once in each place.
//
// Class numbers are computed when a search first turns back, which most searches never do.
type classes struct {
	numbers map[string]int
	of      [][]int // by pool and device: the number plus 1
}

func (c *classes) reset(pools int) {
	clear(c.numbers)
	c.of = Emptied(c.of, pools)
}

// deadClasses are the classes that were tried in one place of the search. Devices of one class differ if
// different claims took them before, which only admin access allows.
type deadClasses []deadClass

type deadClass struct {
	number int
	tried  location
}

func (d *deadClasses) add(s *Search, at location) {
	if s.interchangeable() {
		*d = append(*d, deadClass{s.classNumber(at), at})
	}
}

// contains reports whether a device of the same class was tried. start is the first device tried in this place.
func (d *deadClasses) contains(s *Search, at location, start cursor) bool {
	if len(*d) == 0 {
		return false
	}
	number := s.classNumber(at)
	return slices.ContainsFunc(*d, func(dead deadClass) bool {
		return dead.number == number && s.taken.bySameClaims(dead.tried, at) && s.drawAlike(dead.tried, at, start)
	})
}

// interchangeable reports whether devices of a class are interchangeable. They are not if the search works as
// upstream, a request wants all devices, and its claim has constraints: breaking a constraint is then an
// error, so the order of devices matters.
func (s *Search) interchangeable() bool {
	return !s.unpruned && !(s.Settings().AsUpstream && s.ConstrainsAll())
}

// classNumber returns the number of the class of a device. Devices with the same number draw the same
// amounts, but possibly from different counter sets, see drawAlike.
func (s *Search) classNumber(at location) int {
	if len(s.classes.of[at.pool]) == 0 {
		s.classes.of[at.pool] = Resized(s.classes.of[at.pool], len(s.view.Pools[at.pool].Devices))
	}
	known := &s.classes.of[at.pool][at.device]
	if *known > 0 {
		return *known - 1
	}
	s.memory.key = s.appendSignature(s.memory.key[:0], at)
	number, found := s.classes.numbers[string(s.memory.key)]
	if !found {
		number = len(s.classes.numbers)
		if s.classes.numbers == nil {
			s.classes.numbers = make(map[string]int)
		}
		s.classes.numbers[string(s.memory.key)] = number
	}
	*known = number + 1
	return number
}

// appendSignature encodes everything about a device that the rest of a search depends on, except the counter
// set if there is just one.
func (s *Search) appendSignature(b []byte, at location) []byte {
	for kind := range s.Kinds() {
		var bits byte
		if c := &s.table[kind*len(s.pools)+at.pool]; c.usable != nil {
			if c.usable.Has(at.device) {
				bits |= 1
			}
			if bitset.Has(c.failing, at.device) {
				bits |= 2
			}
			if bitset.Has(c.wanted, at.device) {
				bits |= 4
			}
		}
		b = append(b, bits)
	}
	switch {
	case s.shared(at) && (s.judging == nil || !s.judging.isWhole(at)):
		return appendLocation(append(b, '!'), at) // Each shared device has its own fill level.
	case s.judging != nil:
		b = s.judging.appendWorth(s, b, at)
	}
	for i := range s.constraints {
		b = s.appendConstraint(append(b, '|'), &s.constraints[i], at)
	}
	if pool := s.view.Pools[at.pool]; pool.Counters != nil && pool.Partitions.Has(at.device) {
		b = binary.AppendVarint(append(b, '#'), int64(at.pool))
		b = binary.AppendVarint(b, int64(Of(pool).Pattern[at.device]))
	}
	return b
}

// appendConstraint encodes what a constraint sees of a device: the published attribute, and the values that
// requests derive instead.
func (s *Search) appendConstraint(b []byte, c *scopedConstraint, at location) []byte {
	own, found := c.numbering.At(at.pool, at.device)
	b = c.appendValues(b, own, found, at)
	for _, r := range c.claim.RequestsWithDerived() {
		if c.appliesTo(r) {
			// With an error the device counts as having no value; with AsUpstream, the search is not pruned.
			own, found, _ := s.valuesFor(r, c, at)
			b = c.appendValues(append(b, '/'), own, found, at)
		}
	}
	return b
}

func (c *scopedConstraint) appendValues(b []byte, own []attribute.ValueID, found bool, at location) []byte {
	if !found {
		return b
	}
	if len(own) == 0 && c.distinct {
		// distinctAttribute accepts a value of unknown type from the first device, but not from a later one.
		// So the order matters, and no other device can replace this one.
		return appendLocation(append(b, '?'), at)
	}
	b = append(b, '=')
	for _, v := range own {
		b = binary.AppendVarint(b, int64(v))
	}
	return append(b, ';')
}

func appendLocation(b []byte, at location) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, int64(at.pool)), int64(at.device))
}
