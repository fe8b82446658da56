package ledger

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// IncompatibleError says that devices in use keep a plan from a device.
type IncompatibleError struct {
	Claim      ClaimRef // who wants the device
	Pool       inventory.PoolID
	Device     string
	CounterSet string
}

func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("claim %s was to get device %s/%s, but it has no compatibility group in common with the devices "+
		"that draw from counter set %s by now; looking for other devices", e.Claim, e.Pool, e.Device, e.CounterSet)
}

// checkGroups judges the devices of one pool that nobody uses yet by the compatibility
// groups of those that draw from the same counter sets.
func checkGroups(ref ClaimRef, usage *PoolUsage, pool *inventory.NodePool, allocation *resourceapi.AllocationResult) error {
	if pool.Whole() == nil || pool.Counters == nil || !pool.HasGroups() {
		return nil
	}
	inUse := make(map[string]inventory.Groups) // by counter set
	joined := make(map[string]bool)
	for result := range resultsIn(pool.ID, allocation) {
		if usage.Uses(result.Device) || joined[result.Device] {
			continue
		}
		joined[result.Device] = true
		for _, consumption := range pool.Consumptions(result.Device) {
			before, known := inUse[consumption.CounterSet]
			if !known {
				before = usage.groupsIn(pool, consumption.CounterSet)
			}
			after, ok := before.Join(consumption.CompatibilityGroups)
			if !ok {
				return &IncompatibleError{Claim: ref, Pool: pool.ID, Device: result.Device, CounterSet: consumption.CounterSet}
			}
			inUse[consumption.CounterSet] = after
		}
	}
	return nil
}

// groupsIn returns what the devices in use have in common that draw from a counter set.
func (u *PoolUsage) groupsIn(pool *inventory.NodePool, set string) (groups inventory.Groups) {
	whole := pool.Whole()
	number, found := slices.BinarySearch(whole.Counters.Sets, set)
	if !found {
		return groups
	}
	for _, position := range whole.Drawing(number) {
		device := &whole.Devices[position]
		if !u.Uses(device.Name) {
			continue
		}
		for _, consumption := range device.ConsumesCounters {
			if consumption.CounterSet == set {
				groups = groups.Force(consumption.CompatibilityGroups)
			}
		}
	}
	return groups
}
