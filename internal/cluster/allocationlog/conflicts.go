package allocationlog

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

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
