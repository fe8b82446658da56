package claimlog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Overdraft says that claims together have more of something than there is: of a counter or
// a capacity, or devices with too little in common (compatibility groups).
type Overdraft struct {
	Cause Cause
	Pool  inventory.PoolID
	// Device is set for a Capacity.
	Device string
	// Resource is as in Conflict.
	Resource string
	// Claims are all that draw on it, in the order in which they were allocated as far as
	// that is known, and otherwise in the order in which they arrived.
	Claims []Drawer
	// Enough is for how many of them, from the first one on, there is enough.
	Enough int
}

// Drawer is a claim that takes part in an Overdraft.
type Drawer struct {
	Party
	// ID is the allocation's: it is another one if the claim gets allocated anew.
	ID uint64
}

// maxNamed is how many claims a text names.
const maxNamed = 3

// String is one line, the same for all of the claims.
func (d Overdraft) String() string {
	what := fmt.Sprintf("counter %s of pool %s", d.Resource, d.Pool)
	switch d.Cause {
	case Capacity:
		what = fmt.Sprintf("capacity %s of device %s of pool %s", d.Resource, d.Device, d.Pool)
	case Incompatible:
		what = fmt.Sprintf("counter set %s of pool %s for devices without a compatibility group in common", d.Resource, d.Pool)
	}
	return fmt.Sprintf("%d claims have more than there is of %s: enough for %s, not for %s",
		len(d.Claims), what, named(d.Claims[:d.Enough]), named(d.Claims[d.Enough:]))
}

func named(claims []Drawer) string {
	var names []string
	for _, c := range claims[:min(len(claims), maxNamed)] {
		names = append(names, fmt.Sprintf("%s (resourceVersion %s)", c.ClaimRef, c.Allocated))
	}
	switch more := len(claims) - len(names); {
	case len(claims) == 0:
		return "none"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	default:
		return strings.Join(names, ", ")
	}
}

// Overdrawn returns what claims have too much of in a pool. It says false if that cannot be
// judged, because no complete state of the pool is known. Of claims of which nobody knows
// which one was first, the one that arrived first is.
func (o *Order) Overdrawn(id inventory.PoolID) (overdrafts []Overdraft, judged bool) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	key := inventory.KeyOf(id)
	uses := o.index.pools[key]
	if uses == nil {
		return nil, true
	}
	v := o.viewOf(key)
	if v.pool == nil {
		return nil, true // Everything was withdrawn: nobody knows how much there is.
	}
	if !v.isComplete() {
		return nil, len(v.pool.Off) > 0
	}
	used := o.index.drawn(v.pool, nil)
	for name := range uses {
		if device := v.device(name.Value()); device != nil {
			used = append(used, o.index.capacities(device, &use{pool: key, device: name}, nil)...)
		}
	}
	for _, l := range used {
		if from, overdrawn := l.usedUp(func(a *allocation) uint64 { return a.id }); overdrawn {
			overdrafts = append(overdrafts, newOverdraft(id, l, from))
		}
	}
	return overdrafts, true
}

func newOverdraft(id inventory.PoolID, l *usedLimit, from uint64) Overdraft {
	d := Overdraft{Cause: l.cause(), Pool: id, Resource: l.resource}
	if l.by != nil {
		d.Device = l.by.device.Value()
	}
	for a := range l.users() {
		d.Claims = append(d.Claims, Drawer{a.party(), a.id})
		if a.id < from {
			d.Enough++
		}
	}
	slices.SortFunc(d.Claims, func(a, b Drawer) int { return cmp.Compare(a.ID, b.ID) })
	return d
}

// TakeChanged returns the pools of which slices or uses have changed since the last call:
// those for which Overdrawn may have another answer.
func (o *Order) TakeChanged() []inventory.PoolID {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.changed) == 0 {
		return nil
	}
	pools := make([]inventory.PoolID, 0, len(o.changed))
	for key := range o.changed {
		pools = append(pools, key.Value())
		if o.index.pools[key] == nil && o.pools(key.Value()) == nil {
			delete(o.last, key) // Nobody will ask for it any more.
		}
	}
	clear(o.changed)
	return pools
}

// Uses reports whether any claim has something of a pool.
func (o *Order) Uses(id inventory.PoolID) bool {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.index.pools[inventory.KeyOf(id)] != nil
}

func (o *Order) noteChanges(a *allocation) {
	for i := range a.uses {
		o.changed[a.uses[i].pool] = struct{}{}
	}
}
