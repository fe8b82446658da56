package preemption

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// kept caches the usage of pools in which devices are kept for nominated pods. Most attempts see the same nominations.
type kept struct {
	pools sync.Map // inventory.PoolID to *keptPool
	any   atomic.Bool
}

// A keptPool holds a pool's usage with the kept devices, computed from the base usage.
type keptPool struct {
	base  *ledger.PoolUsage
	kept  []ledger.Use
	usage *ledger.PoolUsage
}

// keeping returns a view that includes some kept uses. The caller must not change uses afterwards.
func (k *kept) keeping(base *ledger.Ledger, uses []ledger.Use) *keepingView {
	v := &keepingView{kept: k, base: base, uses: make(map[inventory.PoolID][]ledger.Use)}
	for i := range uses {
		for result := range ledger.Used(uses[i].Allocation) {
			id := ledger.PoolOf(result)
			if last := len(v.uses[id]) - 1; last < 0 || v.uses[id][last].Allocation != uses[i].Allocation {
				v.uses[id] = append(v.uses[id], uses[i])
			}
		}
	}
	k.any.Store(true)
	return v
}

// forget clears the cache. Call it when nothing is kept.
func (k *kept) forget() {
	if k.any.CompareAndSwap(true, false) {
		k.pools.Clear()
	}
}

// A keepingView is a view of the ledger in which kept devices are in use.
type keepingView struct {
	*kept
	base *ledger.Ledger
	uses map[inventory.PoolID][]ledger.Use
}

// Pool implements ledger.View.
func (v *keepingView) Pool(id inventory.PoolID) *ledger.PoolUsage { return v.with(id, v.base.Pool(id)) }

// OfPool implements ledger.ByPool.
func (v *keepingView) OfPool(pool *inventory.NodePool) *ledger.PoolUsage {
	return v.with(pool.ID, ledger.Of(v.base, pool))
}

// keepsIn reports whether devices of a pool are kept.
func (v *keepingView) keepsIn(pool inventory.PoolID) bool { return len(v.uses[pool]) > 0 }

// with returns the usage of a pool, including the devices kept in it.
func (v *keepingView) with(id inventory.PoolID, base *ledger.PoolUsage) *ledger.PoolUsage {
	uses := v.uses[id]
	if len(uses) == 0 {
		return base
	}
	if known, found := v.pools.Load(id); found && known.(*keptPool).is(base, uses) {
		return known.(*keptPool).usage
	}
	usage := ledger.WhatIf(ledger.Fixed{id: base}, nil, uses).Pool(id)
	v.pools.Store(id, &keptPool{base: base, kept: uses, usage: usage})
	return usage
}

func (p *keptPool) is(base *ledger.PoolUsage, uses []ledger.Use) bool {
	return p.base == base && slices.EqualFunc(p.kept, uses, func(a, b ledger.Use) bool {
		return a.Claim.UID == b.Claim.UID && a.Allocation == b.Allocation
	})
}
