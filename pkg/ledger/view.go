package ledger

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// View returns the usage of pools. Views are safe for concurrent use.
type View interface {
	// Pool never returns nil.
	Pool(inventory.PoolID) *PoolUsage
}

// ByPool is a View that needs the pool itself, because only the pool says which devices are part of
// it, or because that is faster.
type ByPool interface {
	View
	// OfPool returns the usage of the devices that are part of the pool.
	OfPool(pool *inventory.NodePool) *PoolUsage
}

// Of is View.Pool for a pool of the inventory. It is fast for the ledger itself, which is asked for
// each pod and node.
func Of(view View, pool *inventory.NodePool) *PoolUsage {
	switch v := view.(type) {
	case *Ledger:
		return v.OfKey(pool.Key)
	case ByPool:
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

// Without returns the view as it would be if the claims for which gone returns true held nothing. It
// computes a pool only when that pool is looked at, and calls gone for claims with devices in it, possibly
// from several goroutines.
func Without(base View, gone func(claim types.UID) bool) View {
	return &overlay{base: base, pools: make(map[inventory.PoolID]*PoolUsage), change: func(_ inventory.PoolID, base *PoolUsage) *PoolUsage {
		var usage *PoolUsage
		for name, use := range base.All() {
			if !use.by(gone) {
				continue
			}
			if usage == nil {
				usage = &PoolUsage{devices: base.devices, follows: base.follows}
			}
			usage.devices = usage.devices.with(name, use.without(gone))
		}
		if usage == nil {
			return base // Keep the values derived from it.
		}
		return usage
	}}
}

// WhatIf returns the view as it would be without the uses in gone and with those in held. A use
// that already exists may be added once more. The cost depends on the number of changes, and is
// nothing for pools without changes.
func WhatIf(base View, gone, held []Use) View {
	w := &whatIf{base: base, changes: make(map[inventory.PoolID]*poolChange)}
	for i := range gone {
		w.add(&gone[i], func(change *poolChange) { change.gone = append(change.gone, &gone[i]) })
	}
	for i := range held {
		w.add(&held[i], func(change *poolChange) { change.held = append(change.held, &held[i]) })
	}
	return w
}

// whatIf is the View that WhatIf returns.
type whatIf struct {
	base View
	// changes holds the pools in which anything changes.
	changes map[inventory.PoolID]*poolChange
}

// poolChange holds the changes of one pool.
type poolChange struct {
	gone, held []*Use
	once       sync.Once
	usage      *PoolUsage
}

// add records a change in all pools that an allocation uses.
func (w *whatIf) add(use *Use, to func(*poolChange)) {
	for _, id := range poolsOf(use.Allocation) {
		change := w.changes[id]
		if change == nil {
			change = &poolChange{}
			w.changes[id] = change
		}
		to(change)
	}
}

// Pool implements View.
func (w *whatIf) Pool(id inventory.PoolID) *PoolUsage {
	change := w.changes[id]
	if change == nil {
		return w.base.Pool(id)
	}
	return w.changed(id, change, w.base.Pool)
}

// OfPool implements ByPool.
func (w *whatIf) OfPool(pool *inventory.NodePool) *PoolUsage {
	change := w.changes[pool.ID]
	if change == nil {
		return Of(w.base, pool)
	}
	return w.changed(pool.ID, change, func(inventory.PoolID) *PoolUsage { return Of(w.base, pool) })
}

// changed returns the usage of a pool with changes.
func (w *whatIf) changed(id inventory.PoolID, change *poolChange, base func(inventory.PoolID) *PoolUsage) *PoolUsage {
	change.once.Do(func() {
		change.usage = base(id)
		for _, use := range change.gone {
			change.usage = change.usage.change(id, use.Claim, use.Allocation, nil)
		}
		for _, use := range change.held {
			change.usage = change.usage.change(id, use.Claim, nil, use.Allocation)
		}
	})
	return change.usage
}

// overlay is a view that changes the usage of another view, pool by pool.
type overlay struct {
	base   View
	change func(inventory.PoolID, *PoolUsage) *PoolUsage

	mutex sync.Mutex
	// pools caches the usage of the pools looked at so far.
	pools map[inventory.PoolID]*PoolUsage
}

// Pool implements View.
func (o *overlay) Pool(id inventory.PoolID) *PoolUsage {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if usage := o.pools[id]; usage != nil {
		return usage
	}
	usage := o.change(id, o.base.Pool(id))
	o.pools[id] = usage
	return usage
}
