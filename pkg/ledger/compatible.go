package ledger

import (
	"fmt"

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
	if !pool.HasGroups() {
		return nil
	}
	inUse := make(map[string]inventory.Groups) // by counter set
	for name := range usage.Devices {
		for _, consumption := range pool.Consumptions(name) {
			inUse[consumption.CounterSet] = inUse[consumption.CounterSet].Force(consumption.CompatibilityGroups)
		}
	}
	joined := make(map[string]bool)
	for result := range resultsIn(pool.ID, allocation) {
		if _, used := usage.Devices[result.Device]; used || joined[result.Device] {
			continue
		}
		joined[result.Device] = true
		for _, consumption := range pool.Consumptions(result.Device) {
			after, ok := inUse[consumption.CounterSet].Join(consumption.CompatibilityGroups)
			if !ok {
				return &IncompatibleError{Claim: ref, Pool: pool.ID, Device: result.Device, CounterSet: consumption.CounterSet}
			}
			inUse[consumption.CounterSet] = after
		}
	}
	return nil
}
