package allocationlog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Cause is the kind of resource that two claims cannot both have.
type Cause int

const (
	// HeldTwice: both claims hold the device exclusively.
	HeldTwice Cause = iota
	// HeldAndShared: one claim holds the device exclusively, the other has a share of it.
	HeldAndShared
	// Capacity: shares consume more of the device's capacity than it has (KEP-5075).
	Capacity
	// Counter: devices consume more of a counter of the pool than it has (KEP-4815).
	Counter
	// Incompatible: devices that consume from the same counter set have no compatibility group in
	// common (DRADeviceCompatibilityGroups).
	Incompatible
)

// HasAmount reports whether claims can have the resource together as long as the driver publishes enough of it.
func (c Cause) HasAmount() bool { return c == Capacity || c == Counter }

// Party is one of the two claims of a conflict.
type Party struct {
	ledger.ClaimRef
	// Allocated is the span of the write that allocated the claim.
	Allocated Span
	// Foreign is true if no instance of this scheduler made the allocation: its pods get bound
	// without a check for conflicts.
	Foreign bool
}

// Conflict reports that two claims hold something that only one of them can have, or that Other is
// one of several claims that together hold too much.
type Conflict struct {
	// Claim is the claim that was asked about.
	Claim, Other Party
	// Relation says when Other was allocated, compared to Claim.
	Relation Relation
	// Lost is true if Claim must yield: Other is or may be earlier, and for a capacity, a counter
	// or compatibility groups there is too little for Claim and all that may be earlier. If it is
	// false, Other has lost. If the order is unknown, both have lost.
	Lost  bool
	Cause Cause
	Pool  inventory.PoolID
	// Device is a device of Claim. For Counter and Incompatible, Other has a different one.
	Device string
	// Resource is the name of the capacity, "counter set/counter", or the counter set.
	Resource string
}

// String returns one line with versions, for the status of Claim's pods.
func (c Conflict) String() string {
	return fmt.Sprintf("claim %s %s %s (resourceVersion %s; that of claim %s is %s)",
		c.Other.ClaimRef, c.what(), c.when(), c.Other.Allocated, c.Claim.ClaimRef, c.Claim.Allocated)
}

func (c Conflict) what() string {
	switch c.Cause {
	case Counter:
		return fmt.Sprintf("was allocated devices that leave too little of counter %s for device %s of pool %s", c.Resource, c.Device, c.Pool)
	case Incompatible:
		return fmt.Sprintf("was allocated devices that draw from counter set %s and have no compatibility group in common with device %s of pool %s", c.Resource, c.Device, c.Pool)
	case Capacity:
		return fmt.Sprintf("was allocated a share of device %s of pool %s that leaves too little of capacity %s", c.Device, c.Pool, c.Resource)
	case HeldAndShared:
		return fmt.Sprintf("was allocated device %s of pool %s (one of the two has a share of it and the other has all of it)", c.Device, c.Pool)
	default:
		return fmt.Sprintf("was allocated device %s of pool %s", c.Device, c.Pool)
	}
}

func (c Conflict) when() string {
	switch c.Relation {
	case Earlier:
		return "first"
	case Later:
		return "later"
	default:
		return "as well in an unknown order"
	}
}

// party returns the allocation as a party of a conflict.
func (a *allocation) party() Party {
	return Party{ClaimRef: a.ref, Allocated: a.written, Foreign: a.foreign}
}

// finder collects the conflicts of one allocation, each once.
type finder struct {
	index *index
	own   *allocation
	found map[conflictKey]Conflict
}

type conflictKey struct {
	other    *allocation
	pool     inventory.PoolKey
	device   deviceName // unset for Counter and Incompatible, which several devices of a claim can share
	resource string
}

// add records a conflict. lost applies unless the other claim is later.
func (f *finder) add(other *allocation, cause Cause, u *use, resource string, lost bool) {
	key := conflictKey{other, u.pool, u.device, resource}
	if cause == Counter || cause == Incompatible {
		key.device = deviceName{}
	}
	if _, known := f.found[key]; known {
		return
	}
	if f.found == nil {
		f.found = make(map[conflictKey]Conflict)
	}
	relation := relationOf(other.written, f.own.written)
	f.found[key] = Conflict{
		Claim: f.own.party(), Other: other.party(), Relation: relation, Lost: lost && relation != Later,
		Cause: cause, Pool: u.pool.Value(), Device: u.device.Value(), Resource: resource,
	}
}

// sorted returns the conflicts. Those that make the claim yield come first; among them, earlier
// claims come before those of unknown order.
func (f *finder) sorted() []Conflict {
	return slices.SortedFunc(maps.Values(f.found), func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()),
			cmp.Compare(a.Other.Allocated.Last, b.Other.Allocated.Last),
			cmp.Compare(a.Other.UID, b.Other.UID), a.Pool.Compare(b.Pool),
			cmp.Compare(a.Device, b.Device), cmp.Compare(a.Resource, b.Resource))
	})
}

func (c *Conflict) rank() int {
	switch {
	case c.Lost && c.Relation == Earlier:
		return 0
	case c.Lost:
		return 1
	default:
		return 2
	}
}

// conflicts returns all conflicts of a claim, as far as they can be judged. It looks at the claim's
// devices, and at all devices in use of those pools where the claim consumes counters.
func (o *Log) conflicts(uid types.UID) []Conflict {
	own := o.index.claims[uid]
	if own == nil {
		return nil
	}
	f := &finder{index: &o.index, own: own}
	f.compareHolders()
	for key := range own.pools() {
		if !o.index.othersUse(key, own) {
			continue
		}
		v := o.viewOf(key)
		if v.isComplete() {
			for _, s := range o.index.drawn(v.pool, own) {
				f.compare(s)
			}
		}
		for u := range own.usesIn(key) {
			if device := v.device(u.device.Value()); device != nil && u.share != nil {
				for _, s := range o.index.capacities(device, u, u.share) {
					f.compare(s)
				}
			}
		}
	}
	return f.sorted()
}

// compareHolders finds claims that use the same device if one of the two holds it exclusively.
func (f *finder) compareHolders() {
	for i := range f.own.uses {
		u := &f.own.uses[i]
		for _, h := range f.index.pools[u.pool][u.device] {
			switch {
			case h.by == f.own:
			case h.share == nil && u.share == nil:
				f.add(h.by, HeldTwice, u, "", true)
			case h.share == nil || u.share == nil:
				f.add(h.by, HeldAndShared, u, "", true)
			}
		}
	}
}

// othersUse reports whether any other claim uses the pool.
func (x *index) othersUse(pool inventory.PoolKey, own *allocation) bool {
	for _, holdings := range x.pools[pool] {
		if slices.ContainsFunc(holdings, func(h holding) bool { return h.by != own }) {
			return true
		}
	}
	return false
}

// usersOf returns the allocations that use a device.
func usersOf(holdings []holding) []*allocation {
	users := make([]*allocation, len(holdings))
	for i, h := range holdings {
		users[i] = h.by
	}
	return users
}
