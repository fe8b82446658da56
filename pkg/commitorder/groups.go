package commitorder

import (
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// compareGroups finds others whose devices must not draw from a counter set together with
// the allocation's devices in the pool, because they have no compatibility group in common.
func (f *finder) compareGroups(pool *inventory.NodePool) {
	if !pool.HasGroups() {
		return
	}
	supplies := make(map[string]*supply) // by counter set
	drawnBy := make(map[string]*use)     // the allocation's first device that draws from it
	for i := range f.own.uses {
		u := &f.own.uses[i]
		if u.pool != pool.Key {
			continue
		}
		for _, consumption := range pool.Consumptions(u.device.Value()) {
			if set := consumption.CounterSet; supplies[set] == nil {
				supplies[set], drawnBy[set] = &supply{byGroups: true}, u
			}
		}
	}
	for device, holdings := range f.index.pools[pool.Key] {
		var users []*allocation
		for _, h := range holdings {
			users = append(users, h.by)
		}
		for _, consumption := range pool.Consumptions(device.Value()) {
			if s := supplies[consumption.CounterSet]; s != nil {
				s.units = append(s.units, unit{groups: consumption.CompatibilityGroups, users: users})
			}
		}
	}
	for set, s := range supplies {
		rivals, lost := s.rivalsOf(f.own)
		for _, other := range rivals {
			f.add(other, Incompatible, drawnBy[set], set, lost)
		}
	}
}
