package ledger

import (
	"maps"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// ClaimRef identifies a claim that holds something.
type ClaimRef struct {
	Namespace, Name string
	UID             types.UID
}

func (r ClaimRef) String() string { return r.Namespace + "/" + r.Name }

// RefTo returns the reference to a claim.
func RefTo(claim *resourceapi.ResourceClaim) ClaimRef {
	return ClaimRef{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
}

// Share is the part of a device that a claim has (KEP-5075).
type Share struct {
	Holder   ClaimRef
	ID       types.UID
	Consumed map[resourceapi.QualifiedName]resource.Quantity
}

// DeviceUsage is who uses a device. It is immutable. A device of which nothing
// is used has no DeviceUsage.
type DeviceUsage struct {
	// Holders have the device for themselves. More than one is a conflict that
	// happened outside of our control; all are kept, so that the end of one does
	// not make the device look free.
	Holders []ClaimRef
	Shares  []Share
}

func (u DeviceUsage) empty() bool { return len(u.Holders) == 0 && len(u.Shares) == 0 }

// without returns the usage less that by the given claims.
func (u DeviceUsage) without(gone func(types.UID) bool) DeviceUsage {
	return DeviceUsage{
		Holders: slices.DeleteFunc(slices.Clone(u.Holders), func(r ClaimRef) bool { return gone(r.UID) }),
		Shares:  slices.DeleteFunc(slices.Clone(u.Shares), func(s Share) bool { return gone(s.Holder.UID) }),
	}
}

// with returns the usage plus that by a claim, as recorded in an allocation result.
func (u DeviceUsage) with(holder ClaimRef, result *resourceapi.DeviceRequestAllocationResult) DeviceUsage {
	if result.ShareID == nil {
		return DeviceUsage{Holders: append(slices.Clip(u.Holders), holder), Shares: u.Shares}
	}
	share := Share{Holder: holder, ID: *result.ShareID, Consumed: result.ConsumedCapacity}
	return DeviceUsage{Holders: u.Holders, Shares: append(slices.Clip(u.Shares), share)}
}

// PoolUsage is what is used of one pool. It is immutable.
type PoolUsage struct {
	// Devices are those in use, by name. A device here need not exist in the
	// inventory (any more).
	Devices map[string]DeviceUsage

	occupied  atomic.Pointer[projection[bitset.Set]]
	held      atomic.Pointer[projection[bitset.Set]]
	shared    atomic.Pointer[projection[bitset.Set]]
	exhausted atomic.Pointer[projection[bitset.Set]]
	remaining atomic.Pointer[projection[*Remaining]]
}

// projection remembers what was last derived for a version of the pool.
type projection[T any] struct {
	pool  *inventory.NodePool
	value T
}

// unused is the usage of all pools of which nothing is used.
var unused = &PoolUsage{}

// NewPoolUsage returns a usage. The map must not change any more.
func NewPoolUsage(devices map[string]DeviceUsage) *PoolUsage {
	return &PoolUsage{Devices: devices}
}

// Occupied returns the devices of the pool (by position) of which anything is
// used. The set is shared and must not be changed. It is nil if nothing is used.
func (u *PoolUsage) Occupied(pool *inventory.NodePool) bitset.Set {
	if len(u.Devices) == 0 {
		return nil
	}
	return u.positions(&u.occupied, pool, func(DeviceUsage) bool { return true })
}

// Held returns the devices that a claim has for itself. The set is shared and must
// not be changed. It is nil if nothing is used.
func (u *PoolUsage) Held(pool *inventory.NodePool) bitset.Set {
	if len(u.Devices) == 0 {
		return nil
	}
	return u.positions(&u.held, pool, func(usage DeviceUsage) bool { return len(usage.Holders) > 0 })
}

// Shared returns the devices of which somebody has a share, like Held.
func (u *PoolUsage) Shared(pool *inventory.NodePool) bitset.Set {
	if len(u.Devices) == 0 {
		return nil
	}
	return u.positions(&u.shared, pool, func(usage DeviceUsage) bool { return len(usage.Shares) > 0 })
}

// positions returns the devices whose usage has a property.
func (u *PoolUsage) positions(cached *atomic.Pointer[projection[bitset.Set]], pool *inventory.NodePool, has func(DeviceUsage) bool) bitset.Set {
	return project(cached, pool, func() bitset.Set {
		set := bitset.New(len(pool.Devices))
		if len(pool.Devices) < len(u.Devices) {
			// Nodes see different parts of a large pool, so that this is done for each of
			// them: it must not cost what the pool has on all.
			for i := range pool.Devices {
				if usage, used := u.Devices[pool.Devices[i].Name]; used && has(usage) {
					set.Add(i)
				}
			}
			return set
		}
		for name, usage := range u.Devices {
			if position, found := pool.Position(name); found && has(usage) {
				set.Add(position)
			}
		}
		return set
	})
}

func project[T any](cached *atomic.Pointer[projection[T]], pool *inventory.NodePool, derive func() T) T {
	if last := cached.Load(); last != nil && last.pool == pool {
		return last.value
	}
	value := derive()
	cached.Store(&projection[T]{pool, value})
	return value
}

// change returns a copy in which the devices of one claim differ: what the old
// allocation has in this pool is taken out, what the new one has is put in.
// Either may be nil.
func (u *PoolUsage) change(id inventory.PoolID, holder ClaimRef, before, after *resourceapi.AllocationResult) *PoolUsage {
	devices := maps.Clone(u.Devices)
	if devices == nil {
		devices = make(map[string]DeviceUsage)
	}
	for result := range resultsIn(id, before) {
		devices[result.Device] = devices[result.Device].without(func(uid types.UID) bool { return uid == holder.UID })
	}
	for result := range resultsIn(id, after) {
		devices[result.Device] = devices[result.Device].with(holder, result)
	}
	maps.DeleteFunc(devices, func(_ string, usage DeviceUsage) bool { return usage.empty() })
	return NewPoolUsage(devices)
}

// resultsIn yields what an allocation uses of a pool. Devices with admin access
// are not used (KEP-5018).
func resultsIn(id inventory.PoolID, allocation *resourceapi.AllocationResult) func(func(*resourceapi.DeviceRequestAllocationResult) bool) {
	return func(yield func(*resourceapi.DeviceRequestAllocationResult) bool) {
		if allocation == nil {
			return
		}
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			if poolOf(result) == id && !ptr.Deref(result.AdminAccess, false) && !yield(result) {
				return
			}
		}
	}
}

func poolOf(result *resourceapi.DeviceRequestAllocationResult) inventory.PoolID {
	return inventory.PoolID{Driver: result.Driver, Name: result.Pool}
}

// sameDevices reports whether two allocations use the same devices in the same
// way. Most updates of a claim do not touch its allocation, and must cost nothing.
func sameDevices(a, b *resourceapi.AllocationResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(x, y resourceapi.DeviceRequestAllocationResult) bool {
		return x.Driver == y.Driver && x.Pool == y.Pool && x.Device == y.Device &&
			ptr.Deref(x.ShareID, "") == ptr.Deref(y.ShareID, "") &&
			ptr.Deref(x.AdminAccess, false) == ptr.Deref(y.AdminAccess, false)
	})
}
