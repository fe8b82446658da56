package search

import (
	"math/bits"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

const (
	// maxDemands is the maximum number of requests in a check, one bit each.
	maxDemands = 64
	// checkSteps is the cost of a check that found something impossible, in steps of the budget. A check
	// looks at all devices, a step at one.
	checkSteps = 10
	// maxPause is the maximum number of steps between two checks.
	maxPause = 63
)

// prospects schedules the checks whether there can be a solution. As long as checks say "yes" and the search
// still turns back, it has other reasons, and checks become rarer.
type prospects struct {
	infeasible int // number of checks that said no
	pause      int // in steps
	nextCheck  int // in steps
}

// cost returns the steps that the checks take of the budget.
func (p *prospects) cost() int { return p.infeasible * checkSteps }

// feasible reports whether all missing devices could still be found if capacity and combinations of counters did
// not matter: for a request that needs some devices from start on, and for everything after it. It checks without
// constraints, and with each constraint alone. A "no" is certain; a "yes" is certain only if nothing else matters.
func (s *Search) feasible(r *task.Request, slot, missing int, start cursor) bool {
	if s.steps < s.prospects.nextCheck {
		return true
	}
	if s.impossible(demand{r, missing, start}, r.Claim, slot) {
		s.prospects.infeasible++
		s.prospects.pause = 0
		return false
	}
	s.prospects.pause = min(2*s.prospects.pause+1, maxPause)
	s.prospects.nextCheck = s.steps + s.prospects.pause
	return true
}

// infeasible reports whether there cannot be a solution at all. A search checks this before it begins, unless
// it has only one request without constraints, where tooFew suffices.
func (s *Search) infeasible() bool {
	if len(s.Claims()) == 0 || s.Slots() < 2 && len(s.constraints) == 0 {
		return false
	}
	return s.impossible(demand{}, s.Claims()[0], -1)
}

// flow is the reusable memory of canSupply.
type flow struct {
	rows     []row
	words    []bitset.Set
	supplies []Supply
	needs    []int
	surplus  int      // number of the supplies that are not available at the same time as the others
	users    []uint64 // by value
	matching Matching
	capping  capping
}

// row is one demand, or several that the same devices can meet.
type row struct {
	demand
	need    int  // of all demands, less what shares can cover
	covered bool // by the constraint in question
}

// canSupply reports whether there are devices for all demands at once. If a constraint is given, the requests
// that it covers only get devices with the value v.
func (s *Search) canSupply(demands []demand, c *scopedConstraint, v attribute.ValueID) bool {
	f := &s.memory.flow
	s.fillRows(demands, c)
	f.supplies, f.surplus = f.supplies[:0], 0
	for pool := range s.pools {
		s.fillWords(pool, c, v)
		if s.turnedBack {
			s.addCapped(pool)
		}
		shareable := s.pools[pool].shareable
		for word := range s.taken.byAny[pool] {
			f.addSupplies(word, shareable)
		}
	}
	return f.satisfiable()
}

// satisfiable reports whether the supplies suffice for the needs of all rows.
func (f *flow) satisfiable() bool {
	f.needs = f.needs[:0]
	for i := range f.rows {
		f.needs = append(f.needs, f.rows[i].need)
	}
	return f.matching.Satisfiable(f.needs, f.supplies, f.surplus)
}

// fillRows makes the rows, one for all demands that the same devices can meet. It joins no demands if there
// are shareable devices, because each request can have its own share of a device.
func (s *Search) fillRows(demands []demand, c *scopedConstraint) {
	f := &s.memory.flow
	f.rows = f.rows[:0]
next:
	for _, d := range demands {
		covered := c != nil && c.coversClaimOf(d.request) && c.appliesTo(d.request)
		if d.start == (cursor{}) && !s.sharable {
			for i := range f.rows {
				r := &f.rows[i]
				if r.start == (cursor{}) && r.request.Kind == d.request.Kind && r.covered == covered {
					r.need += d.missing
					continue next
				}
			}
		}
		f.rows = append(f.rows, row{d, d.missing, covered})
	}
}

// fillWords determines which devices of a pool can meet each row.
func (s *Search) fillWords(pool int, c *scopedConstraint, v attribute.ValueID) {
	f, having := &s.memory.flow, bitset.Set(nil)
	if c != nil {
		having = c.numbering.HoldersIn(pool, v)
	}
	f.words = Kept(f.words, len(f.rows))
	for i := range f.rows {
		f.words[i] = s.available(f.words[i], &f.rows[i].demand, pool)
		switch {
		case c == nil || !f.rows[i].covered:
		case having == nil:
			clear(f.words[i])
		default:
			f.words[i].And(having)
		}
	}
}

// addSupplies counts the devices of one word by the rows that they can meet.
func (f *flow) addSupplies(word int, shareable bitset.Set) {
	var all uint64
	for i := range f.rows {
		if shareable != nil && shareable[word] != 0 {
			f.rows[i].need -= bits.OnesCount64(f.words[i][word] & shareable[word])
			f.words[i][word] &^= shareable[word]
		}
		all |= f.words[i][word]
	}
	for all != 0 {
		// All devices that can meet the same rows as the first.
		alike, users := all, uint64(0)
		first := all & -all
		for i := range f.rows {
			if w := f.words[i][word]; w&first != 0 {
				alike &= w
				users |= 1 << i
			} else {
				alike &^= w
			}
		}
		f.addSupply(users, bits.OnesCount64(alike))
		all &^= alike
	}
}

func (f *flow) addSupply(users uint64, count int) {
	for i := range f.supplies {
		if f.supplies[i].Users == users {
			f.supplies[i].Count += count
			return
		}
	}
	f.supplies = append(f.supplies, Supply{Users: users, Count: count})
}
