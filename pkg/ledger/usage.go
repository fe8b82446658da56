package ledger

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
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
	// drawn is what is remembered of its counters, nil if that is nothing.
	drawn *drawn
}

func (u DeviceUsage) empty() bool { return len(u.Holders) == 0 && len(u.Shares) == 0 }

// without returns the usage less that by the given claims.
func (u DeviceUsage) without(gone func(types.UID) bool) DeviceUsage {
	if len(u.Holders) == 1 && len(u.Shares) == 0 && gone(u.Holders[0].UID) {
		return DeviceUsage{} // By far the most common.
	}
	return DeviceUsage{
		Holders: slices.DeleteFunc(slices.Clone(u.Holders), func(r ClaimRef) bool { return gone(r.UID) }),
		Shares:  slices.DeleteFunc(slices.Clone(u.Shares), func(s Share) bool { return gone(s.Holder.UID) }),
		drawn:   u.drawn,
	}
}

// by reports whether any of the claims uses the device.
func (u DeviceUsage) by(claim func(types.UID) bool) bool {
	return slices.ContainsFunc(u.Holders, func(r ClaimRef) bool { return claim(r.UID) }) ||
		slices.ContainsFunc(u.Shares, func(s Share) bool { return claim(s.Holder.UID) })
}

// with returns the usage plus that by a claim, as recorded in an allocation result.
func (u DeviceUsage) with(holder ClaimRef, result *resourceapi.DeviceRequestAllocationResult) DeviceUsage {
	if result.ShareID == nil {
		u.Holders = append(slices.Clip(u.Holders), holder)
		return u
	}
	share := Share{Holder: holder, ID: *result.ShareID, Consumed: countable(result.ConsumedCapacity)}
	u.Shares = append(slices.Clip(u.Shares), share)
	return u
}

// countable returns amounts with which one can calculate: anybody may have written them.
func countable(consumed map[resourceapi.QualifiedName]resource.Quantity) map[resourceapi.QualifiedName]resource.Quantity {
	for _, quantity := range consumed {
		if !amount.Countable(quantity) {
			consumed = maps.Clone(consumed)
			for name, quantity := range consumed {
				consumed[name] = amount.Bounded(quantity)
			}
			break
		}
	}
	return consumed
}

// PoolUsage is what is used of one pool. It is immutable.
type PoolUsage struct {
	devices useMap
	// follows is set if it is told of slices that are not there any more.
	follows bool

	occupied  atomic.Pointer[projection[bitset.Set]]
	held      atomic.Pointer[projection[bitset.Set]]
	shared    atomic.Pointer[projection[bitset.Set]]
	exhausted atomic.Pointer[projection[bitset.Set]]
	remaining atomic.Pointer[projection[*Remaining]]
}

// unused is the usage of all pools of which nothing is used.
var unused = &PoolUsage{}

// NewPoolUsage returns a usage by name of the device.
func NewPoolUsage(devices map[string]DeviceUsage) *PoolUsage {
	return &PoolUsage{devices: newUseMap(devices)}
}

// heldUsage is a PoolUsage with what is derived from it, in one piece of memory.
type heldUsage struct {
	PoolUsage
	used, alsoShared projection[bitset.Set]
}

// NewHeldUsage returns the usage of which is only known which devices of a layout somebody
// holds, by position. No two of them may have the same name, and the set must not be
// changed any more.
func NewHeldUsage(layout *inventory.Layout, held bitset.Set, by []ClaimRef) *PoolUsage {
	uses := make([]namedUse, 0, held.Len())
	for i := range held.All() {
		name := layout.Devices[i].Name
		uses = append(uses, namedUse{maphash.String(useSeed, name), name, DeviceUsage{Holders: by}})
	}
	if len(uses) == 0 {
		return unused
	}
	u := &heldUsage{used: projection[bitset.Set]{layout, held}, alsoShared: projection[bitset.Set]{layout, bitset.New(len(layout.Devices))}}
	u.devices = useMap{newUseNode(uses, 0), len(uses)}
	u.occupied.Store(&u.used)
	u.held.Store(&u.used)
	u.shared.Store(&u.alsoShared)
	return &u.PoolUsage
}

// Device returns who uses a device, which need not exist in the inventory (any more).
func (u *PoolUsage) Device(name string) DeviceUsage { return u.devices.get(name) }

// Uses reports whether anything of a device is in use.
func (u *PoolUsage) Uses(name string) bool { return u.devices.len > 0 && !u.devices.get(name).empty() }

// Len returns how many devices are in use.
func (u *PoolUsage) Len() int { return u.devices.len }

// All yields the devices in use by name, in no order.
func (u *PoolUsage) All() iter.Seq2[string, DeviceUsage] {
	return func(yield func(string, DeviceUsage) bool) { u.devices.root.all(yield) }
}

// Occupied returns the devices of the pool (by position) of which anything is
// used. The set is shared and must not be changed. It is nil if nothing is used.
func (u *PoolUsage) Occupied(pool *inventory.NodePool) bitset.Set {
	if u.Len() == 0 {
		return nil
	}
	return u.positions(&u.occupied, pool, isUsed)
}

// Held returns the devices that a claim has for itself. The set is shared and must
// not be changed. It is nil if nothing is used.
func (u *PoolUsage) Held(pool *inventory.NodePool) bitset.Set {
	if u.Len() == 0 {
		return nil
	}
	return u.positions(&u.held, pool, isHeld)
}

// Shared returns the devices of which somebody has a share, like Held.
func (u *PoolUsage) Shared(pool *inventory.NodePool) bitset.Set {
	if u.Len() == 0 {
		return nil
	}
	return u.positions(&u.shared, pool, isShared)
}

func isUsed(usage DeviceUsage) bool   { return !usage.empty() }
func isHeld(usage DeviceUsage) bool   { return len(usage.Holders) > 0 }
func isShared(usage DeviceUsage) bool { return len(usage.Shares) > 0 }

// positions returns the devices whose usage has a property.
func (u *PoolUsage) positions(cached *atomic.Pointer[projection[bitset.Set]], pool *inventory.NodePool, has func(DeviceUsage) bool) bitset.Set {
	return project(cached, pool.Layout, func() bitset.Set {
		set := bitset.New(len(pool.Devices))
		if len(pool.Devices) < u.Len() {
			// Nodes see different parts of a large pool, so that this is done for each of
			// them: it must not cost what the pool has on all.
			for i := range pool.Devices {
				if has(u.Device(pool.Devices[i].Name)) {
					set.Add(i)
				}
			}
			return set
		}
		for name, usage := range u.All() {
			if position, found := pool.Position(name); found && has(usage) {
				set.Add(position)
			}
		}
		return set
	})
}

// change returns a copy in which the devices of one claim differ: what the old
// allocation has in this pool is taken out, what the new one has is put in.
// Either may be nil.
func (u *PoolUsage) change(id inventory.PoolID, holder ClaimRef, before, after *resourceapi.AllocationResult) *PoolUsage {
	next, touched := &PoolUsage{devices: u.devices, follows: u.follows}, make([]string, 0, 4)
	for result := range usedOf(id, before) {
		others := next.Device(result.Device).without(func(uid types.UID) bool { return uid == holder.UID })
		next.devices = next.devices.with(result.Device, others)
		touched = append(touched, result.Device)
	}
	for result := range usedOf(id, after) {
		use := next.Device(result.Device).with(holder, result)
		if use.drawn == nil { // The claim may have had it before as well.
			use.drawn = u.Device(result.Device).drawn
		}
		next.devices = next.devices.with(result.Device, use)
		touched = append(touched, result.Device)
	}
	slices.Sort(touched)
	next.carry(u, slices.Compact(touched))
	return next
}
