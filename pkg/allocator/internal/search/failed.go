package search

import (
	"encoding/binary"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// stateBefore describes the state of the search before a request. It is "" if that is not worth the effort,
// or if shares are part of the state: the fill level of a device depends on more than the classes of the
// chosen devices.
func (s *Search) stateBefore(c *task.Claim, slot int) string {
	if !s.turnedBack || len(s.sharing) > 0 || c.Index == 0 && slot == 0 {
		return ""
	}
	gone := s.memory.members[:0]
	for _, placements := range s.placed {
		for i := range placements {
			gone = append(gone, s.goneAs(&placements[i]))
		}
	}
	s.memory.members = gone
	slices.Sort(gone)
	b := binary.AppendVarint(s.memory.key[:0], int64(c.Slots[slot].ID))
	b = binary.AppendVarint(b, int64(len(s.placed[c.Index])))
	for _, device := range gone {
		b = binary.AppendUvarint(b, device)
	}
	constraints := s.constraintsOf(c)
	for i := range constraints {
		b = constraints[i].appendState(append(b, '|'))
	}
	s.memory.key = b
	return string(b)
}

// goneAs describes a chosen device: by its class and counter set if the devices of a class are
// interchangeable, otherwise by its position. The claim matters with admin access only.
func (s *Search) goneAs(p *placement) uint64 {
	const bits = 20
	var who, what, set uint64
	if s.HasAdmin() {
		who = uint64(p.request.Claim.Index) << 1
		if p.request.TakesNothing {
			who |= 1
		}
	}
	if !s.interchangeable() {
		return who<<(2*bits) | uint64(p.at.pool)<<bits | uint64(p.at.device)
	}
	// Before the key is written, because classNumber uses the same memory.
	what = uint64(s.classNumber(p.at))
	if draws := s.view.Pools[p.at.pool].Counters.Draws(p.at.device); len(draws) == 1 {
		set = uint64(draws[0].Set)
	}
	return who<<(2*bits) | what<<bits | set
}

// appendState encodes the demands of the constraint on the next device.
func (c *scopedConstraint) appendState(b []byte) []byte {
	b = binary.AppendVarint(b, int64(min(c.devices(), 1)))
	if !c.distinct {
		if c.devices() > 0 {
			for _, v := range c.agreed() {
				b = binary.AppendVarint(b, int64(v))
			}
		}
		return b
	}
	for v, devices := range c.used {
		if devices > 0 {
			b = binary.AppendVarint(b, int64(v))
		}
	}
	return b
}
