package search

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// alike reports whether two candidates of a request are equivalent, for all later choices and for the value of the plan.
func (i *improvement) alike(a, b location) bool {
	s := i.Search
	if !s.interchangeable() || s.classNumber(a) != s.classNumber(b) || !s.taken.bySameClaims(a, b) || s.sharesOwn(a) || s.sharesOwn(b) {
		return false
	}
	mine, other, differ := s.ownSets(a, b)
	if !differ {
		return true
	}
	// Both sets are interchangeable, with all devices cut out of them.
	sets := Of(s.view.Pools[a.pool])
	return len(s.sharing) == 0 && i.room.state.Holders[i.room.unit(a)] == i.room.state.Holders[i.room.unit(b)] && s.sameState(sets, location{a.pool, mine}, location{a.pool, other})
}

// sharesOwn reports whether the search itself allocated shares of a device.
func (s *Search) sharesOwn(at location) bool {
	own := s.sharing[at]
	return own != nil && own.shares > 0
}

// appendWorth encodes what the objective sees of a device in addition to the class signature.
func (m *room) appendWorth(s *Search, b []byte, at location) []byte {
	if p := &s.pools[at.pool]; bitset.Has(p.usage.Shared(p.pool), at.device) {
		b = appendLocation(append(b, '?'), at) // The use by others differs for each device.
	}
	i := m.index(at)
	d := &m.state.Devices[i]
	if facts := m.facts[at.pool]; facts.Capacity[at.device] > 0 {
		b = binary.AppendVarint(append(b, '%'), int64(at.pool))
		b = binary.AppendVarint(b, int64(facts.Capacity[at.device]))
	}
	b = binary.AppendUvarint(append(b, '$'), d.Kinds)
	b = binary.AppendUvarint(b, math.Float64bits(d.Size))
	if m.open[i] {
		b = append(b, '+')
	}
	if !s.isReady(at) {
		b = append(b, '~')
	}
	if times := s.failures(at); times > 0 {
		b = binary.AppendVarint(append(b, '^'), int64(times))
	}
	if bitset.Has(s.view.Pools[at.pool].OfNode, at.device) {
		b = objective.AppendOfNode(append(b, '&'), s.device(at))
	}
	return m.groups.AppendTo(b, at.pool, at.device)
}

// isWhole reports whether a device is without any use.
func (m *room) isWhole(at location) bool { return m.whole[m.index(at)] }

// seenBefore reports whether the search reached this request before with the same devices placed for all
// requests before it. It then tried all that can follow.
func (i *improvement) seenBefore(c *task.Claim, slot int) bool {
	if c.Slots[slot].ID == 0 {
		return false
	}
	const bits = 20
	members := i.memory.members[:0]
	for _, placements := range i.placed {
		for p := range placements {
			r, at := placements[p].request, placements[p].at
			who := r.Kind
			if len(i.constraints) > 0 || i.HasAdmin() {
				who = r.ID
			}
			members = append(members, uint64(who)<<(2*bits)|uint64(at.pool)<<bits|uint64(at.device))
		}
	}
	slices.Sort(members)
	i.memory.members = members
	b := binary.AppendVarint(i.memory.key[:0], int64(c.Slots[slot].ID))
	for _, member := range members {
		b = binary.AppendUvarint(b, member)
	}
	i.memory.key = b
	if _, seen := i.seen[string(b)]; seen {
		return true
	}
	if i.seen == nil {
		i.seen = make(map[string]struct{})
	}
	i.seen[string(b)] = struct{}{}
	return false
}
