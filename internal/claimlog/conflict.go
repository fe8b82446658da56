package claimlog

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Cause is what two claims cannot both have.
type Cause int

const (
	// HeldTwice: both have the device for themselves.
	HeldTwice Cause = iota
	// HeldAndShared: one has the device for itself, the other one has a share of it.
	HeldAndShared
	// Capacity: shares take more of the device's capacity than there is (KEP-5075).
	Capacity
	// Counter: devices draw more from a counter of the pool than there is (KEP-4815).
	Counter
	// Incompatible: devices that draw from the same counter set have no compatibility group
	// in common (DRADeviceCompatibilityGroups).
	Incompatible
)

// Party is one of the two claims of a conflict.
type Party struct {
	ledger.ClaimRef
	// Allocated is when the claim was allocated.
	Allocated Span
	// Foreign is true if no instance of ours made that allocation: its pods get bound
	// without a look at others.
	Foreign bool
}

// Conflict says that two claims hold something that only one of them can have, or that
// of several claims which together hold too much, Other is one.
type Conflict struct {
	// Claim is the one that was asked about.
	Claim, Other Party
	// Relation is when Other was allocated, compared to Claim.
	Relation Relation
	// Lost is true if Claim has to yield: Other is earlier or may be, and if it is about
	// a capacity, a counter or compatibility groups, there is too little for Claim and all
	// that may be earlier.
	// If it is false, Other has lost. Both have if nobody knows who was first.
	Lost  bool
	Cause Cause
	Pool  inventory.PoolID
	// Device is a device of Claim. For a Counter and if they are Incompatible, Other has a
	// different one.
	Device string
	// Resource is the name of the capacity, "counter set/counter", or the counter set.
	Resource string
}

// String is one line for the status of Claim's pods, complete with versions.
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
		return fmt.Sprintf("was allocated device %s of pool %s, of which only one of the two has a share,", c.Device, c.Pool)
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
		return "as well, nobody knows who was first"
	}
}

// party returns what a conflict says of an allocation.
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
	device   deviceName // not set for what several devices of a claim may draw from
	resource string
}

// add records a conflict. lost is for the case that the other claim is not later.
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

// sorted returns the conflicts: those first that make the claim yield, and of these
// the earlier ones before those of unknown order.
func (f *finder) sorted() []Conflict {
	var list []Conflict
	for _, conflict := range f.found {
		list = append(list, conflict)
	}
	slices.SortFunc(list, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()),
			cmp.Compare(a.Other.Allocated.Last, b.Other.Allocated.Last),
			cmp.Compare(a.Other.UID, b.Other.UID), a.Pool.Compare(b.Pool),
			cmp.Compare(a.Device, b.Device), cmp.Compare(a.Resource, b.Resource))
	})
	return list
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
