package commitorder

import (
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// groupSets returns the counter sets of a pool as what compatibility groups limit: those
// from which the allocation draws, or all if none is given, with all devices that do.
func (x *index) groupSets(pool *inventory.NodePool, of *allocation) []*supply {
	if !pool.HasGroups() {
		return nil
	}
	supplies := make(map[string]*supply)
	newSupply := func(set string, by *use) {
		if supplies[set] == nil {
			supplies[set] = &supply{cause: Incompatible, resource: set, by: by, byGroups: true}
		}
	}
	if of != nil {
		for u := range of.usesIn(pool.Key) {
			for _, consumption := range pool.Consumptions(u.device.Value()) {
				newSupply(consumption.CounterSet, u)
			}
		}
	}
	for device, holdings := range x.pools[pool.Key] {
		users := usersOf(holdings)
		for _, consumption := range pool.Consumptions(device.Value()) {
			if of == nil {
				newSupply(consumption.CounterSet, nil)
			}
			if s := supplies[consumption.CounterSet]; s != nil {
				s.units = append(s.units, unit{groups: consumption.CompatibilityGroups, users: users})
			}
		}
	}
	return sortedSupplies(supplies)
}
