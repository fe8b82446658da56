package allocator

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// drawnCounters is what the search has drawn from the counters of each pool
// (KEP-4815), by the pool's position in the site. Only what was touched has an
// entry: what is left otherwise is the ledger's and never copied.
type drawnCounters map[int]*drawnFromPool

type drawnFromPool struct {
	left  *ledger.Remaining
	drawn ledger.Counters
}

// draw takes what a device consumes, all or nothing.
func (d *drawnCounters) draw(site Site, pool int, device *inventory.Device) bool {
	p := d.of(site, pool)
	if !covers(p.left, p.drawn, device) {
		return false
	}
	p.change(device, (*resource.Quantity).Add)
	return true
}

// suffices reports whether left - drawn >= needed.
func suffices(left, drawn, needed resource.Quantity) bool {
	if drawn.IsZero() {
		return left.Cmp(needed) >= 0
	}
	rest := left.DeepCopy()
	rest.Sub(drawn)
	return rest.Cmp(needed) >= 0
}

func (d *drawnCounters) of(site Site, index int) *drawnFromPool {
	if p := (*d)[index]; p != nil {
		return p
	}
	if *d == nil {
		*d = make(drawnCounters)
	}
	pool := site.Pools[index]
	p := &drawnFromPool{left: site.Usage.Pool(pool.ID).Remaining(pool), drawn: make(ledger.Counters)}
	(*d)[index] = p
	return p
}

// giveBack undoes a draw that succeeded.
func (d *drawnCounters) giveBack(pool int, device *inventory.Device) {
	(*d)[pool].change(device, (*resource.Quantity).Sub)
}

func (p *drawnFromPool) change(device *inventory.Device, apply func(*resource.Quantity, resource.Quantity)) {
	for i := range device.ConsumesCounters {
		consumption := &device.ConsumesCounters[i]
		set := p.drawn[consumption.CounterSet]
		if set == nil {
			set = make(map[string]resource.Quantity, len(consumption.Counters))
			p.drawn[consumption.CounterSet] = set
		}
		for name, amount := range consumption.Counters {
			value := set[name]
			apply(&value, amount.Value)
			set[name] = value
		}
	}
}

// covers reports whether enough is left for a device after what was drawn, which may
// be nil for nothing.
func covers(left *ledger.Remaining, drawn ledger.Counters, device *inventory.Device) bool {
	if left.Overdrawn {
		return false
	}
	for i := range device.ConsumesCounters {
		consumption := &device.ConsumesCounters[i]
		have, gone := left.Counters[consumption.CounterSet], drawn[consumption.CounterSet]
		for name, needed := range consumption.Counters {
			if !suffices(have[name], gone[name], needed.Value) {
				return false
			}
		}
	}
	return true
}
