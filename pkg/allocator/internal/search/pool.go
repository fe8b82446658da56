package search

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/allocated"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// poolState is a pool as one search sees it. The search reads the ledger once, because the ledger may change meanwhile.
type poolState struct {
	pool  *inventory.NodePool
	usage *ledger.PoolUsage
	// later is set if usage does not contain the held devices. The search then looks up each device that it meets.
	later *allocated.HeldLater
	// shareable are the devices that allow multiple allocations, nil without DRAConsumableCapacity.
	shareable bitset.Set
	// measuring is set if capacities can matter: DRAConsumableCapacity is on, and the pool can be allocated from.
	measuring bool
	// known caches the result of measured. A straight search may not need it.
	known bitset.Set

	// left holds the remaining amounts of the counters after the search's first draw: those of the ledger
	// minus the draws. Its memory is reused.
	left []quantity.Amount
	// draws counts changes of left; blockedAt is that count when blocked was determined.
	draws, blockedAt int
	blocked          bitset.Set
}

// start prepares the pool for a search. A straight search does not look at devices before it meets them.
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
	if !straight || metBefore(pool) {
		p.measured()
	}
}

func (p *poolState) release() {
	p.pool, p.usage, p.later, p.shareable, p.known = nil, nil, nil, nil, nil
}

// measures reports whether the capacities of a device matter regardless of the request.
func (p *poolState) measures(device int) bool {
	if p.known != nil {
		return p.known.Has(device)
	}
	return !plainCapacity(p.pool.Devices[device].Device) || bitset.Has(p.usage.Shared(p.pool), device)
}

// measured returns the devices for which measures is true.
func (p *poolState) measured() bitset.Set {
	if p.known == nil {
		p.known = measuredDevices(p.pool)
		// A device that is not offered for sharing any more may still have shares in use.
		if shared := p.usage.Shared(p.pool); !shared.Empty() {
			p.known = p.known.Clone()
			p.known.Or(shared)
		}
	}
	return p.known
}

// measuredKey is the key of a pool content's measuredDevices.
type measuredKey struct{}

// metKey is the key of a pool content that a straight search has met.
type metKey struct{}

// metBefore reports whether it is called again for a pool's content. A search that looks at few devices of a pool, once, must not look at
// the capacities of all.
func metBefore(pool *inventory.NodePool) bool {
	_, met := pool.Content.Others.Get(metKey{})
	if !met {
		pool.Content.Others.Put(metKey{}, true)
	}
	return met
}

// measuredDevices returns the devices whose capacities matter even to requests without capacity: such a
// request may not take the whole device, or its amount may be invalid.
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
