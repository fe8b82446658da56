package commitorder

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Pools looks a pool up: all its devices, wherever they are. It returns nil for a pool
// that is not known; then counters and capacities of that pool are not compared.
type Pools func(inventory.PoolID) *inventory.NodePool

// rivals returns all conflicts of a claim. It looks at the claim's devices, and at all
// devices in use of those of its pools in which it draws on counters.
func (x *index) rivals(uid types.UID, pools Pools) []Conflict {
	own := x.claims[uid]
	if own == nil {
		return nil
	}
	f := &finder{index: x, own: own}
	known := make(map[inventory.PoolKey]*inventory.NodePool, 1)
	for i := range own.uses {
		u := &own.uses[i]
		f.compareHolders(u)
		pool, asked := known[u.pool]
		if !asked && f.othersUse(u.pool) {
			if pool = pools(u.pool.Value()); pool != nil {
				f.compareCounters(pool)
				f.compareGroups(pool)
			}
		}
		known[u.pool] = pool
		if pool != nil && u.share != nil {
			f.compareCapacity(u, pool)
		}
	}
	return f.sorted()
}

// compareHolders finds others that use the same device when one of the two has it for
// himself.
func (f *finder) compareHolders(u *use) {
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

// othersUse reports whether any other claim has something of the pool.
func (f *finder) othersUse(pool inventory.PoolKey) bool {
	for _, holdings := range f.index.pools[pool] {
		if slices.ContainsFunc(holdings, func(h holding) bool { return h.by != f.own }) {
			return true
		}
	}
	return false
}
