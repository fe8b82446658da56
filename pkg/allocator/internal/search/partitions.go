package search

import (
	"encoding/binary"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// partitions says how the devices of a pool draw from its counter sets.
//
// Counter sets are of one kind if their devices draw the same one by one, and from no
// other set: typically the GPUs of a node with their partitions. As long as they are
// in the same state too, they can be swapped with all their devices, so that a search
// that failed with one of them need not be repeated with another.
type partitions struct {
	// pattern is a number by device: the same for devices that draw the same amounts
	// with the same compatibility groups, if from one set from any.
	pattern []int
	users   [][]int // by set: positions, ascending
	alone   []bool  // by set: whether its users draw from no other set
}

// partitionsKey is where a pool keeps its partitions.
type partitionsKey struct{}

func partitionsOf(pool *inventory.NodePool) *partitions {
	return inventory.Cached(&pool.Derived, partitionsKey{}, func() *partitions { return newPartitions(pool) })
}

func newPartitions(pool *inventory.NodePool) *partitions {
	counters := pool.Counters
	p := &partitions{
		pattern: make([]int, len(pool.Devices)), users: make([][]int, len(counters.Sets)), alone: make([]bool, len(counters.Sets)),
	}
	for i := range p.alone {
		p.alone[i] = true
	}
	patterns := make(map[string]int)
	for device := range pool.Partitions.All() {
		draws := counters.Draws(device)
		pattern := string(appendPattern(nil, &pool.Devices[device], draws))
		if _, found := patterns[pattern]; !found {
			patterns[pattern] = len(patterns)
		}
		p.pattern[device] = patterns[pattern]
		for _, draw := range draws {
			p.users[draw.Set] = append(p.users[draw.Set], device)
			p.alone[draw.Set] = p.alone[draw.Set] && len(draws) == 1
		}
	}
	return p
}

// appendPattern encodes what a device draws.
func appendPattern(b []byte, device *inventory.Device, draws []inventory.Draw) []byte {
	for i, consumption := range device.ConsumesCounters {
		if len(draws) > 1 {
			b = binary.AppendVarint(b, int64(draws[i].Set))
		}
		b = draws[i].AppendTo(b)
		for _, group := range slices.Sorted(slices.Values(consumption.CompatibilityGroups)) {
			b = append(binary.AppendVarint(b, int64(len(group))), group...)
		}
		b = append(b, ';')
	}
	return b
}

// drawAlike reports whether it makes no difference which of two devices of one class
// is taken, given what they draw from. tried comes before at; nothing before start is
// tried in their place.
//
// For different sets, consider the swap of each device of one with its counterpart in
// the other. It turns a solution with at in this place into one with tried. That one
// would have been found: its devices for this place are not before start because
// those of the second set all are not, and those of the first set stand in for
// devices that follow at.
func (s *Search) drawAlike(tried, at location, start cursor) bool {
	counters := s.view.Pools[at.pool].Counters
	draws := counters.Draws(at.device)
	if len(draws) != 1 {
		return true // Then the sets are part of the class.
	}
	mine, other := draws[0].Set, counters.Draws(tried.device)[0].Set
	if mine == other {
		return true
	}
	sets := partitionsOf(s.view.Pools[at.pool])
	first := sets.users[mine][0]
	if s.Settings().Policy != nil || start.pool == at.pool && first < start.rank {
		return false
	}
	return s.sameState(sets, location{at.pool, other}, location{at.pool, mine})
}

// sameState reports whether two counter sets, given as pool and set, can be swapped.
func (s *Search) sameState(sets *partitions, a, b location) bool {
	usersA, usersB := sets.users[a.device], sets.users[b.device]
	p := &s.pools[a.pool]
	if !sets.alone[a.device] || !sets.alone[b.device] || len(usersA) != len(usersB) || !p.sameLeft(a.device, b.device) {
		return false
	}
	for i := range usersA {
		x, y := location{a.pool, usersA[i]}, location{b.pool, usersB[i]}
		if s.classNumber(x) != s.classNumber(y) || !s.taken.bySameClaims(x, y) {
			return false
		}
	}
	if !s.Settings().Features.CompatibilityGroups {
		return true
	}
	groups, names := s.compatibilityGroupsIn(a.pool), p.pool.Counters.Sets
	return groups[names[a.device]].Equal(groups[names[b.device]])
}
