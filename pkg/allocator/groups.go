package allocator

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// groupState is what the devices that draw from one counter set have in common:
// only devices with a compatibility group in common may do so at the same time,
// and devices without groups only with others without (DRADeviceCompatibilityGroups).
// The zero value stands for no devices.
type groupState struct {
	occupied bool
	// torn is set if the devices in use should never have got together. Nobody
	// can join them.
	torn bool
	// common are the groups that all devices have; empty means that none has any.
	common []string
}

// join returns the state with one more device, and whether the device may join.
func (g groupState) join(groups []string) (groupState, bool) {
	switch {
	case g.torn:
		return g, false
	case !g.occupied:
		return groupState{occupied: true, common: groups}, true
	case len(groups) == 0 || len(g.common) == 0:
		return g, len(groups) == len(g.common)
	}
	var common []string
	for _, group := range g.common {
		if slices.Contains(groups, group) {
			common = append(common, group)
		}
	}
	return groupState{occupied: true, common: common}, len(common) > 0
}

// force is join for a device that already is there, whether it should or not.
func (g groupState) force(groups []string) groupState {
	if g.occupied && (len(groups) == 0 || len(g.common) == 0) {
		return g
	}
	joined, ok := g.join(groups)
	joined.torn = !ok
	return joined
}

// compatibility is the state of each counter set of each pool. What the search
// changes is undone with the values that joinGroups returns.
type compatibility map[int]map[string]groupState

// joinGroups adds a device to the counter sets that it draws from, all or nothing.
// undo is what to give to restore.
func (s *search) joinGroups(at location) (undo map[string]groupState, ok bool) {
	states, device := s.groupsIn(at.pool), s.device(at)
	undo = make(map[string]groupState, len(device.ConsumesCounters))
	for _, consumption := range device.ConsumesCounters {
		before := states[consumption.CounterSet]
		after, ok := before.join(consumption.CompatibilityGroups)
		if !ok {
			s.compatibility.restore(at.pool, undo)
			return nil, false
		}
		undo[consumption.CounterSet] = before
		states[consumption.CounterSet] = after
	}
	return undo, true
}

func (c compatibility) restore(pool int, undo map[string]groupState) {
	for set, before := range undo {
		c[pool][set] = before
	}
}

// groupsIn returns the states of a pool, initially those of the devices in use.
func (s *search) groupsIn(index int) map[string]groupState {
	if states, found := s.compatibility[index]; found {
		return states
	}
	if s.compatibility == nil {
		s.compatibility = make(compatibility)
	}
	states := make(map[string]groupState)
	pool := s.site.Pools[index]
	for _, devices := range [][]inventory.Device{pool.Devices, pool.Elsewhere} {
		for _, device := range devices {
			if _, used := s.pools[index].usage.Devices[device.Name]; !used {
				continue
			}
			for _, consumption := range device.ConsumesCounters {
				states[consumption.CounterSet] = states[consumption.CounterSet].force(consumption.CompatibilityGroups)
			}
		}
	}
	s.compatibility[index] = states
	return states
}
