package search

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// compatibility holds the state of each counter set, by pool and set. restore reverses the changes of the
// search, with the values that joinCompatible returns.
type compatibility map[int]map[string]inventory.CompatibilityGroups

// joinCompatible adds a device to the counter sets that it draws from, all or nothing. undo is the argument for restore.
func (s *Search) joinCompatible(at location) (undo map[string]inventory.CompatibilityGroups, ok bool) {
	states, device := s.compatibilityGroupsIn(at.pool), s.device(at)
	undo = make(map[string]inventory.CompatibilityGroups, len(device.ConsumesCounters))
	for _, consumption := range device.ConsumesCounters {
		before := states[consumption.CounterSet]
		after, ok := before.Join(consumption.CompatibilityGroups)
		if !ok {
			s.compatibility.restore(at.pool, undo)
			return nil, false
		}
		undo[consumption.CounterSet] = before
		states[consumption.CounterSet] = after
	}
	return undo, true
}

func (c compatibility) restore(pool int, undo map[string]inventory.CompatibilityGroups) {
	for set, before := range undo {
		c[pool][set] = before
	}
}

// compatibilityGroupsIn returns the states of a pool, initially those of the devices in use.
func (s *Search) compatibilityGroupsIn(index int) map[string]inventory.CompatibilityGroups {
	if states, found := s.compatibility[index]; found {
		return states
	}
	if s.compatibility == nil {
		s.compatibility = make(compatibility)
	}
	states := make(map[string]inventory.CompatibilityGroups)
	s.compatibility[index] = states
	pool, usage := s.view.Pools[index], s.pools[index].usage
	if usage.Len() == 0 || !usage.HasCompatibilityGroups(pool) {
		return states // No groups are in use, so any devices are compatible.
	}
	force := func(consumptions []resourceapi.DeviceCounterConsumption) {
		for _, consumption := range consumptions {
			states[consumption.CounterSet] = states[consumption.CounterSet].Force(consumption.CompatibilityGroups)
		}
	}
	for i := range usage.Occupied(pool).All() {
		force(pool.Devices[i].ConsumesCounters)
	}
	for device := range pool.Elsewhere() {
		if usage.Uses(device.Name) {
			force(device.ConsumesCounters)
		}
	}
	for _, device := range usage.Withdrawn(pool) {
		force(device.Of)
	}
	return states
}
