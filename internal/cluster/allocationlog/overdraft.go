package allocationlog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Overdraft reports that claims together have more of a counter or a capacity than exists, or
// devices without a compatibility group in common.
type Overdraft struct {
	Cause Cause
	Pool  inventory.PoolID
	// Device is set for Capacity.
	Device string
	// Resource is as in Conflict.
	Resource string
	// Claims lists all claims that use the resource, in the order of allocation as far as it is
	// known, otherwise in the order of arrival.
	Claims []Drawer
	// Enough is the number of claims, from the first one on, that the resource suffices for.
	Enough int
}

// Drawer is a claim that takes part in an Overdraft.
type Drawer struct {
	Party
	// ID is the number of the allocation: a claim that is allocated again gets another one.
	ID uint64
}

// maxNamed limits the claims that a text names.
const maxNamed = 3

// String returns one line, the same for all of the claims.
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

// Overdrawn returns the resources that claims have too much of in a pool. judged is false if that
// cannot be judged, because no complete state of the pool is known. If the order of two claims is
// unknown, the one that arrived first counts as first.
func (o *Log) Overdrawn(id inventory.PoolID) (overdrafts []Overdraft, judged bool) {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	key := inventory.KeyOf(id)
	uses := o.index.pools[key]
	if uses == nil {
		return nil, true
	}
	v := o.viewOf(key)
	if v.pool == nil {
		return nil, true // All slices were withdrawn, so the amounts are unknown.
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

// TakeChanged returns the pools whose slices or uses have changed since the last call: Overdrawn
// may return another result for them.
func (o *Log) TakeChanged() []inventory.PoolID {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if len(o.changed) == 0 {
		return nil
	}
	pools := make([]inventory.PoolID, 0, len(o.changed))
	for key := range o.changed {
		pools = append(pools, key.Value())
		if o.index.pools[key] == nil && o.pools(key.Value()) == nil {
			delete(o.last, key) // No later question can concern this pool.
		}
	}
	clear(o.changed)
	return pools
}

// Uses reports whether any claim uses a pool.
func (o *Log) Uses(id inventory.PoolID) bool {
	o.mutex.RLock()
	defer o.mutex.RUnlock()
	return o.index.pools[inventory.KeyOf(id)] != nil
}

func (o *Log) noteChanges(a *allocation) {
	for i := range a.uses {
		o.changed[a.uses[i].pool] = struct{}{}
	}
}
