package whatif

import (
	"maps"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// usage is the usage of pools: the ledger's, except for changed pools. It implements ledger.ByPool.
type usage struct {
	ledger  *ledger.Ledger
	changed map[inventory.PoolID]*ledger.PoolUsage
}

// Pool implements ledger.View.
func (u *usage) Pool(id inventory.PoolID) *ledger.PoolUsage {
	if changed := u.changed[id]; changed != nil {
		return changed
	}
	return u.ledger.Pool(id)
}

// OfPool implements ledger.ByPool.
func (u *usage) OfPool(pool *inventory.NodePool) *ledger.PoolUsage {
	if changed := u.changed[pool.ID]; changed != nil {
		return changed
	}
	return ledger.Of(u.ledger, pool)
}

// with returns the usage without the uses in gone and with those in held. The cost depends on the
// number of changes so far.
func (u *usage) with(gone, held []ledger.Use) usage {
	view := ledger.WhatIf(u, gone, held)
	changed := maps.Clone(u.changed)
	if changed == nil {
		changed = make(map[inventory.PoolID]*ledger.PoolUsage)
	}
	for _, uses := range [][]ledger.Use{gone, held} {
		for i := range uses {
			for result := range ledger.Used(uses[i].Allocation) {
				id := ledger.PoolOf(result)
				changed[id] = view.Pool(id)
			}
		}
	}
	return usage{ledger: u.ledger, changed: changed}
}
