package ledger

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Freed lists, by pool, the devices that are less in use than before: other pods may have waited
// for them. Each method that changes the ledger returns it, because events cannot tell: if a claim
// was allocated and deallocated while the watch was broken, no event shows that it ever had
// devices.
type Freed map[inventory.PoolID][]string

// DevicesOf returns the devices of allocations.
func DevicesOf(uses ...Use) Freed {
	devices := make(Freed)
	for _, use := range uses {
		for result := range Used(use.Allocation) {
			id := PoolOf(result)
			devices[id] = append(devices[id], result.Device)
		}
	}
	return devices
}

// Receiver is told of devices that became free.
type Receiver interface {
	Freed(Freed)
}

// And returns the union of two Freed values. Either may be nil, and neither may be used afterwards.
func (f Freed) And(more Freed) Freed {
	if f == nil {
		return more
	}
	for id, devices := range more {
		f[id] = append(f[id], devices...)
	}
	return f
}

// freed returns the devices that the allocation before used and after does not, once the change is
// published. A device that another claim also holds exclusively is not free.
func (l *Ledger) freed(before, after *resourceapi.AllocationResult) Freed {
	if before == nil {
		return nil
	}
	kept := make(map[resultKey]*resourceapi.DeviceRequestAllocationResult)
	for result := range Used(after) {
		kept[keyOf(result)] = result
	}
	var freed Freed
	for result := range Used(before) {
		id := PoolOf(result)
		same := kept[keyOf(result)]
		if same != nil && sameConsumption(same, result) || len(l.Pool(id).Device(result.Device).Holders) > 0 {
			continue
		}
		if freed == nil {
			freed = make(Freed)
		}
		freed[id] = append(freed[id], result.Device)
	}
	return freed
}
