package preemption

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// TestKeptAsFoundAnew: after random changes, the cached usage with kept devices equals the usage computed from the
// current ledger.
func TestKeptAsFoundAnew(t *testing.T) {
	t.Parallel()
	again := 0
	for seed := range int64(100) {
		c := newCluster(t, seed)
		var k kept
		var nominations []ledger.Use
		for range 60 {
			switch claim := c.claim(); c.rng.Intn(8) {
			case 0, 1:
				nominations = append(nominations, ledger.Use{Claim: ledger.RefTo(claim), Allocation: claim.Status.Allocation})
			case 2:
				nominations = nil
			case 3, 4:
				c.step()
			}
			view, anew := k.keeping(c.ledger, nominations), ledger.WhatIf(c.ledger, nil, nominations)
			for _, pool := range c.pools {
				before, _ := k.pools.Load(pool.ID)
				require.Equal(t, holdersIn(anew, pool), holdersIn(view, pool), "seed %d", seed)
				require.Equal(t, holdersIn(anew, pool), names(view.Pool(pool.ID)), "seed %d", seed)
				require.Equal(t, ledger.Of(anew, pool) != ledger.Of(c.ledger, pool), view.keepsIn(pool.ID))
				if after, _ := k.pools.Load(pool.ID); after != nil && after == before && view.keepsIn(pool.ID) {
					again++
				}
			}
		}
		k.forget()
		require.False(t, k.any.Load())
	}
	require.Greater(t, again, 1000, "pools of which it was known")
}

func holdersIn(view ledger.View, pool *inventory.NodePool) map[string]int {
	return names(ledger.Of(view, pool))
}

// names returns the number of holders by device.
func names(usage *ledger.PoolUsage) map[string]int {
	holders := make(map[string]int)
	for name, use := range usage.All() {
		holders[name] = len(use.Holders)
	}
	return holders
}
