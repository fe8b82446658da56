package search

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/allocated"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// poolState is a pool as one search sees it: the ledger may change meanwhile, the
// search looks at it once.
type poolState struct {
	pool  *inventory.NodePool
	usage *ledger.PoolUsage
	// later is set if usage does not say which devices are held: then it is looked up for
	// each device that the search meets.
	later *allocated.HeldLater
	// shareable are the devices that can be allocated several times, nil without
	// DRAConsumableCapacity.
	shareable bitset.Set
	// measuring is set if capacities can matter: DRAConsumableCapacity is on, and the pool
	// can be allocated from.
	measuring bool
	// known is what measured returned. A straight search may do without.
	known bitset.Set

	// left is what is left of the counters, once the search has drawn from any: the
	// ledger's less what was drawn. The memory is used again.
	left []amount.Amount
	// draws counts changes of left, blockedAt is the count when blocked was determined.
	draws, blockedAt int
	blocked          bitset.Set
}

// start begins a search. A straight one does not look at devices before it meets them.
func (p *poolState) start(t *task.Task, pool *inventory.NodePool, usage ledger.View, straight bool) {
	p.release()
	p.pool, p.draws, p.blockedAt = pool, 0, 0
	if straight {
		p.later = allocated.LookLater(usage, pool)
	}
	if p.later == nil {
		p.usage = ledger.Of(usage, pool)
	} else {
		p.usage = ledger.Fixed(nil).Pool(pool.ID)
	}
	p.measuring = t.Settings().Features.ConsumableCapacity && pool.State == inventory.Complete
	if !p.measuring {
		return
	}
	p.shareable = pool.Shareable
	if !straight {
		p.measured()
	}
}

func (p *poolState) release() {
	p.pool, p.usage, p.later, p.shareable, p.known = nil, nil, nil, nil, nil
}

// measures reports whether the capacities of a device matter whatever a request asks for.
func (p *poolState) measures(device int) bool {
	if p.known != nil {
		return p.known.Has(device)
	}
	return !plainCapacity(p.pool.Devices[device].Device) || bitset.Has(p.usage.Shared(p.pool), device)
}

// measured returns the devices that measures is true for.
func (p *poolState) measured() bitset.Set {
	if p.known == nil {
		p.known = measuredDevices(p.pool)
		// Somebody may still have a share of a device that is not offered for sharing
		// any more.
		if shared := p.usage.Shared(p.pool); !shared.Empty() {
			p.known = p.known.Clone()
			p.known.Or(shared)
		}
	}
	return p.known
}

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
