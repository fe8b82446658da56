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

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
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

// DeviceUsage holds the claims that use a device. It is immutable. A device that is not in use has
// no DeviceUsage.
type DeviceUsage struct {
	// Holders are the claims that hold the device exclusively. More than one is a conflict that
	// other writers caused. All are kept, so that the device does not look free when one of them
	// ends.
	Holders []ClaimRef
	Shares  []Share
	// drawn is the device's remembered counter consumption, nil if there is none.
	drawn *drawn
}

func (u DeviceUsage) empty() bool { return len(u.Holders) == 0 && len(u.Shares) == 0 }

// without returns the usage without that of the given claims.
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

// with returns the usage plus that of a claim, as recorded in an allocation result.
func (u DeviceUsage) with(holder ClaimRef, result *resourceapi.DeviceRequestAllocationResult) DeviceUsage {
	if result.ShareID == nil {
		u.Holders = append(slices.Clip(u.Holders), holder)
		return u
	}
	share := Share{Holder: holder, ID: *result.ShareID, Consumed: countable(result.ConsumedCapacity)}
	u.Shares = append(slices.Clip(u.Shares), share)
	return u
}

// countable returns the amounts bounded to values that can be calculated with: any client may have
// written them.
func countable(consumed map[resourceapi.QualifiedName]resource.Quantity) map[resourceapi.QualifiedName]resource.Quantity {
	for _, consumption := range consumed {
		if !quantity.Countable(consumption) {
			consumed = maps.Clone(consumed)
			for name, consumption := range consumed {
				consumed[name] = quantity.Bounded(consumption)
			}
			break
		}
	}
	return consumed
}

// PoolUsage holds the usage of one pool. It is immutable.
type PoolUsage struct {
	devices useMap
	// follows is set if the ledger is told of slices that no longer exist (see Follow).
	follows bool

	occupied  atomic.Pointer[projection[bitset.Set]]
	held      atomic.Pointer[projection[bitset.Set]]
	shared    atomic.Pointer[projection[bitset.Set]]
	exhausted atomic.Pointer[projection[bitset.Set]]
	remaining atomic.Pointer[projection[*Remaining]]
}

// unused is the usage of all pools without devices in use.
var unused = &PoolUsage{}

// NewPoolUsage returns a usage from a map by device name.
func NewPoolUsage(devices map[string]DeviceUsage) *PoolUsage {
	return &PoolUsage{devices: newUseMap(devices)}
}

// heldUsage holds a PoolUsage and the values derived from it in one allocation of memory.
type heldUsage struct {
	PoolUsage
	used, alsoShared projection[bitset.Set]
}

// NewHeldUsage returns a usage in which the claims of by hold the given devices of a layout
// exclusively. held has the devices by position. No two of them may have the same name, and the set
// must not be changed afterwards.
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

// Device returns the usage of a device, which need not exist in the inventory (any more).
func (u *PoolUsage) Device(name string) DeviceUsage { return u.devices.get(name) }

// Uses reports whether a device is in use.
func (u *PoolUsage) Uses(name string) bool { return u.devices.len > 0 && !u.devices.get(name).empty() }

// Len returns how many devices are in use.
func (u *PoolUsage) Len() int { return u.devices.len }

// All yields the devices in use by name. The order is undefined.
func (u *PoolUsage) All() iter.Seq2[string, DeviceUsage] {
	return func(yield func(string, DeviceUsage) bool) { u.devices.root.all(yield) }
}

// Claims returns the claims that hold devices or shares of devices, each once, by UID.
func (u *PoolUsage) Claims() (claims []types.UID) {
	for _, use := range u.All() {
		for _, holder := range use.Holders {
			claims = append(claims, holder.UID)
		}
		for _, share := range use.Shares {
			claims = append(claims, share.Holder.UID)
		}
	}
	slices.Sort(claims)
	return slices.Compact(claims)
}

// Occupied returns the devices of the pool, by position, that are in use. The set is shared and
// must not be changed. It is nil if no device is in use.
func (u *PoolUsage) Occupied(pool *inventory.NodePool) bitset.Set {
	if u.Len() == 0 {
		return nil
	}
	return u.positions(&u.occupied, pool, isUsed)
}

// Held returns the devices, by position, that claims hold exclusively. The set is shared and must
// not be changed. It is nil if no device is in use.
func (u *PoolUsage) Held(pool *inventory.NodePool) bitset.Set {
	if u.Len() == 0 {
		return nil
	}
	return u.positions(&u.held, pool, isHeld)
}

// Shared returns the devices with shares in use, like Held.
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
			// Nodes see different parts of a large pool, so this runs for each of them. It must not
			// cost as much as the usage of the whole pool.
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

// change returns a copy in which the devices of one claim differ: it removes what the allocation
// before has in this pool and adds what after has. Either may be nil.
func (u *PoolUsage) change(id inventory.PoolID, holder ClaimRef, before, after *resourceapi.AllocationResult) *PoolUsage {
	next, touched := &PoolUsage{devices: u.devices, follows: u.follows}, make([]string, 0, 4)
	for result := range usedOf(id, before) {
		others := next.Device(result.Device).without(func(uid types.UID) bool { return uid == holder.UID })
		next.devices = next.devices.with(result.Device, others)
		touched = append(touched, result.Device)
	}
	for result := range usedOf(id, after) {
		use := next.Device(result.Device).with(holder, result)
		if use.drawn == nil { // The claim may have had the device before as well.
			use.drawn = u.Device(result.Device).drawn
		}
		next.devices = next.devices.with(result.Device, use)
		touched = append(touched, result.Device)
	}
	slices.Sort(touched)
	next.carry(u, slices.Compact(touched))
	return next
}
