package ledger

import (
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Used yields the results of an allocation, which may be nil. It leaves out devices with admin
// access, which do not count as used (KEP-5018).
func Used(allocation *resourceapi.AllocationResult) iter.Seq[*resourceapi.DeviceRequestAllocationResult] {
	return func(yield func(*resourceapi.DeviceRequestAllocationResult) bool) {
		if allocation == nil {
			return
		}
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			if !ptr.Deref(result.AdminAccess, false) && !yield(result) {
				return
			}
		}
	}
}

// PoolOf returns the pool of an allocated device.
func PoolOf(result *resourceapi.DeviceRequestAllocationResult) inventory.PoolID {
	return inventory.PoolID{Driver: result.Driver, Name: result.Pool}
}

// resultKey identifies what a result is about: a device, or a share of it.
type resultKey struct {
	inventory.PoolID
	device string
	share  types.UID
}

func keyOf(result *resourceapi.DeviceRequestAllocationResult) resultKey {
	return resultKey{PoolOf(result), result.Device, ptr.Deref(result.ShareID, "")}
}

// usedOf yields the results that an allocation uses of a pool.
func usedOf(id inventory.PoolID, allocation *resourceapi.AllocationResult) iter.Seq[*resourceapi.DeviceRequestAllocationResult] {
	return func(yield func(*resourceapi.DeviceRequestAllocationResult) bool) {
		for result := range Used(allocation) {
			if PoolOf(result) == id && !yield(result) {
				return
			}
		}
	}
}

// IsIn reports whether a use has devices in any of the pools, apart from those with admin access.
func (u Use) IsIn(pools []inventory.PoolID) bool {
	for result := range Used(u.Allocation) {
		if slices.Contains(pools, PoolOf(result)) {
			return true
		}
	}
	return false
}

// DevicesIn returns the devices of a pool that a use has, apart from those with admin access.
func (u Use) DevicesIn(pool inventory.PoolID) (devices []string) {
	for result := range usedOf(pool, u.Allocation) {
		devices = append(devices, result.Device)
	}
	return devices
}

// poolsOf returns the pools of all devices in the allocations, each once. Allocations may be nil.
func poolsOf(allocations ...*resourceapi.AllocationResult) []inventory.PoolID {
	var pools []inventory.PoolID
	for _, allocation := range allocations {
		if allocation == nil {
			continue
		}
		for i := range allocation.Devices.Results {
			if id := PoolOf(&allocation.Devices.Results[i]); !slices.Contains(pools, id) {
				pools = append(pools, id)
			}
		}
	}
	return pools
}

// sameUse reports whether two allocations use the same devices in the same way and consume the same
// capacity. Most updates of a claim do not touch its allocation, and must cost nothing.
func sameUse(a, b *resourceapi.AllocationResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(x, y resourceapi.DeviceRequestAllocationResult) bool {
		return keyOf(&x) == keyOf(&y) && ptr.Deref(x.AdminAccess, false) == ptr.Deref(y.AdminAccess, false) && sameConsumption(&x, &y)
	})
}

// sameConsumption reports whether two results consume the same amount of each capacity.
func sameConsumption(x, y *resourceapi.DeviceRequestAllocationResult) bool {
	return len(x.ConsumedCapacity)+len(y.ConsumedCapacity) == 0 || quantity.DeepEqual(x.ConsumedCapacity, y.ConsumedCapacity)
}
