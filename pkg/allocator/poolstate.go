package allocator

import (
	"k8s.io/utils/ptr"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// poolState is a pool as one search sees it: the ledger may change meanwhile, the
// search looks at it once.
type poolState struct {
	pool  *inventory.NodePool
	usage *ledger.PoolUsage
	// shareable are the devices that can be allocated several times, measured those
	// of which the capacities matter whatever a request asks for. Both are nil
	// without DRAConsumableCapacity.
	shareable, measured bitset.Set

	// left is what is left of the counters, once the search has drawn from any: the
	// ledger's less what was drawn. The memory is used again.
	left []amount.Amount
	// draws counts changes of left, blockedAt is the count when blocked was determined.
	draws, blockedAt int
	blocked          bitset.Set
}

func (p *poolState) start(t *Task, pool *inventory.NodePool, usage *ledger.PoolUsage) {
	p.pool, p.usage, p.draws, p.blockedAt = pool, usage, 0, 0
	p.shareable, p.measured = nil, nil
	if t.solver.Features.ConsumableCapacity && pool.State == inventory.Complete {
		p.shareable, p.measured = pool.Shareable, measuredDevices(pool)
		// Somebody may still have a share of a device that is not offered for sharing
		// any more.
		if shared := usage.Shared(pool); !shared.Empty() {
			p.measured = p.measured.Clone()
			p.measured.Or(shared)
		}
	}
}

func (p *poolState) release() { p.pool, p.usage, p.shareable, p.measured = nil, nil, nil, nil }

// measuredKey is where measuredDevices are kept.
type measuredKey struct{}

// measuredDevices returns the devices of which a request that asks for no capacity
// does not just take everything, or for which something can be wrong with that.
func measuredDevices(pool *inventory.NodePool) bitset.Set {
	return inventory.Cached(&pool.Content.Others, measuredKey{}, func() bitset.Set {
		set := bitset.New(len(pool.Devices))
		for i := range pool.Devices {
			if !plainCapacity(pool.Devices[i].Device) {
				set.Add(i)
			}
		}
		return set
	})
}

func plainCapacity(device *resourceapi.Device) bool {
	if ptr.Deref(device.AllowMultipleAllocations, false) {
		return false
	}
	for _, capacity := range device.Capacity {
		if capacity.RequestPolicy != nil || capacity.Value.Sign() < 0 {
			return false
		}
	}
	return true
}
