package ledger

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// View answers what is used of a pool. Views are safe for concurrent use.
type View interface {
	// Pool never returns nil.
	Pool(inventory.PoolID) *PoolUsage
}

// ByDevice is a View that looks for each device of a pool whether it is used, because
// nothing else says which devices of the pool are.
type ByDevice interface {
	View
	// OfPool returns what is used of the devices that are part of the pool.
	OfPool(pool *inventory.NodePool) *PoolUsage
}

// Of is View.Pool for a pool of the inventory. It is fast for the ledger itself, which is
// asked for each pod and node.
func Of(view View, pool *inventory.NodePool) *PoolUsage {
	switch v := view.(type) {
	case *Ledger:
		return v.pool(pool.Key)
	case ByDevice:
		return v.OfPool(pool)
	}
	return view.Pool(pool.ID)
}

// Fixed is a view that never changes.
type Fixed map[inventory.PoolID]*PoolUsage

// Pool implements View.
func (f Fixed) Pool(id inventory.PoolID) *PoolUsage {
	if usage := f[id]; usage != nil {
		return usage
	}
	return unused
}

// Without returns the view as it would be if some claims held nothing. It costs
// nothing until a pool is looked at, and then only that pool.
func Without(base View, claims ...types.UID) View {
	return &without{base: base, claims: claims, pools: make(map[inventory.PoolID]*PoolUsage)}
}

type without struct {
	base   View
	claims []types.UID

	mutex sync.Mutex
	pools map[inventory.PoolID]*PoolUsage
}

func (w *without) Pool(id inventory.PoolID) *PoolUsage {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if usage := w.pools[id]; usage != nil {
		return usage
	}
	base := w.base.Pool(id)
	usage := &PoolUsage{devices: base.devices}
	gone := func(uid types.UID) bool { return slices.Contains(w.claims, uid) }
	for name, use := range base.All() {
		if use.by(gone) {
			usage.devices = usage.devices.with(name, use.without(gone))
		}
	}
	w.pools[id] = usage
	return w.pools[id]
}
