package ledger

import (
	"iter"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A driver may withdraw a device that is in use, or publish lower consumption for it. The claim
// that uses the device goes on to consume as much as when it got the device. A ledger that follows
// the slices remembers that consumption while the device is in use. A ledger that started later
// cannot: if a complete pool with counter sets lacks a device in use, and no slice of an older
// generation has it either, the device may consume from any of these sets.
//
// Upstream does not count such devices. Neither do views that do not know what was published
// before: NewPoolUsage, NewHeldUsage (and with them allocator.New, which must give upstream's
// results), and a Ledger without Follow.

// drawn holds the counter consumption of a device in use according to slices that no longer exist:
// the maximum for each counter. A counter set occurs several times if it was published with
// different compatibility groups: a device that joins must be compatible with all of them. It is
// immutable.
type drawn []resourceapi.DeviceCounterConsumption

// mostDrawn limits how many counters are remembered for a device, so that a driver that keeps
// inventing counters cannot fill the memory.
const mostDrawn = 256

// beyond stands for more than mostDrawn counters. The consumption of the device then counts as
// unknown.
var beyond = new(drawn)

// Follow makes the ledger judge counters and capacities by the contents of a store, and remember
// the counter consumption of devices in use. It must be called before the ledger or the store is
// used.
func (l *Ledger) Follow(store *inventory.Store) {
	l.Pools = func(id inventory.PoolID) *inventory.NodePool {
		if pool := store.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	store.Superseded, l.followed = l.superseded, store
}

// superseded implements inventory.Store.Superseded. It remembers the published consumption of
// devices in use, unless by still publishes the same.
func (l *Ledger) superseded(slice, by *inventory.Slice) {
	id := slice.PoolID()
	if len(slice.Spec.Devices) == 0 || l.Pool(id).Len() == 0 {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	before := l.Pool(id)
	isOver := func(device *resourceapi.Device, at int) bool { return !consumesTheSame(by, at, device) }
	if pool := l.followed.Pool(id); slice.Spec.Pool.Generation < pool.Generation() {
		// What is remembered or published is newer than this slice.
		isOver = func(device *resourceapi.Device, _ int) bool {
			return before.Device(device.Name).drawn == nil && pool.Everywhere().Device(device.Name) == nil
		}
	}
	if after := before.remember(slice, isOver); after != before {
		l.store(id, after)
	}
}

// remember returns the usage plus the consumption that a slice states for devices in use for which
// isOver returns true.
func (u *PoolUsage) remember(slice *inventory.Slice, isOver func(device *resourceapi.Device, at int) bool) *PoolUsage {
	next := u
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		use := u.Device(device.Name)
		if use.empty() || !isOver(device, i) {
			continue
		}
		if next == u {
			next = &PoolUsage{devices: u.devices, follows: true}
		}
		use.drawn = use.drawn.and(device.ConsumesCounters)
		next.devices = next.devices.with(device.Name, use)
	}
	return next
}

// consumesTheSame reports whether a slice, which may be nil, has the device with the same counter
// consumption. It looks at the given position first.
func consumesTheSame(slice *inventory.Slice, at int, device *resourceapi.Device) bool {
	if slice == nil {
		return false
	}
	devices := slice.Spec.Devices
	if at >= len(devices) || devices[at].Name != device.Name {
		at = slices.IndexFunc(devices, func(d resourceapi.Device) bool { return d.Name == device.Name })
	}
	return at >= 0 && quantity.DeepEqual(devices[at].ConsumesCounters, device.ConsumesCounters)
}

// and returns the maximum of both for each counter, with the compatibility groups of both.
func (d *drawn) and(consumptions []resourceapi.DeviceCounterConsumption) *drawn {
	switch d {
	case nil:
		return (*drawn)(&consumptions)
	case beyond:
		return d
	}
	most := slices.Clone(*d)
	for i := range consumptions {
		at := slices.IndexFunc(most, func(c resourceapi.DeviceCounterConsumption) bool { return c.CounterSet == consumptions[i].CounterSet })
		if at < 0 {
			most = append(most, consumptions[i])
			continue
		}
		counters := maps.Clone(most[at].Counters)
		for name, counter := range consumptions[i].Counters {
			if before, found := counters[name]; !found || quantity.Compare(counter.Value, before.Value) > 0 {
				counters[name] = counter
			}
		}
		most[at].Counters = counters
		if !slices.ContainsFunc(most, func(c resourceapi.DeviceCounterConsumption) bool { return goesWith(&c, &consumptions[i]) }) {
			most = append(most, resourceapi.DeviceCounterConsumption{
				CounterSet: consumptions[i].CounterSet, CompatibilityGroups: consumptions[i].CompatibilityGroups,
			})
		}
	}
	counters := 0
	for i := range most {
		counters += 1 + len(most[i].Counters)
	}
	if counters > mostDrawn {
		return beyond
	}
	return &most
}

// goesWith reports whether two consumptions are of the same counter set with the same compatibility groups.
func goesWith(a, b *resourceapi.DeviceCounterConsumption) bool {
	return a.CounterSet == b.CounterSet && slices.Equal(a.CompatibilityGroups, b.CompatibilityGroups)
}

// Withdrawn yields the devices in use that a pool no longer publishes, or publishes with other
// consumption, and their former counter consumption. The order is undefined.
func (u *PoolUsage) Withdrawn(pool *inventory.NodePool) iter.Seq2[string, Consumption] {
	return func(yield func(string, Consumption) bool) {
		if !u.follows || pool.Counters == nil || len(pool.Counters.Sets) == 0 {
			return
		}
		for name, use := range u.All() {
			if _, published := pool.Whole().Position(name); published && use.drawn == nil {
				continue // By far the most common.
			}
			if !yield(name, use.consumption(pool, name)) {
				return
			}
		}
	}
}

// Consumption is the counter consumption of a device in use that is not published as before. If it
// is not Known, the device may consume any amount of any counter.
type Consumption struct {
	Known bool
	Of    []resourceapi.DeviceCounterConsumption
}

func (u DeviceUsage) consumption(pool *inventory.NodePool, name string) Consumption {
	switch u.drawn {
	case nil:
	case beyond:
		return Consumption{}
	default:
		return Consumption{true, *u.drawn}
	}
	if former := pool.Former(name); former != nil {
		return Consumption{true, former.ConsumesCounters}
	}
	return Consumption{}
}

// HasCompatibilityGroups reports whether any device of a pool has compatibility groups, or whether
// a device in use had some in an earlier version.
func (u *PoolUsage) HasCompatibilityGroups(pool *inventory.NodePool) bool {
	return pool.HasCompatibilityGroups() || u.follows && u.Remaining(pool).formerGroups
}

// takeFormer subtracts what devices in use consume beyond their published consumption.
func (u *PoolUsage) takeFormer(pool *inventory.NodePool, remaining *Remaining) {
	whole := pool.Whole()
	for name, device := range u.Withdrawn(pool) {
		var taken []inventory.Draw
		if position, published := whole.Position(name); published {
			taken = whole.Counters.Draws(position)
		}
		if !device.Known {
			remaining.Unknown = append(remaining.Unknown, name)
		}
		takeMore(remaining.Amounts, whole.Counters, device.Of, taken)
		remaining.formerGroups = remaining.formerGroups || inventory.HaveCompatibilityGroups(device.Of)
	}
	slices.Sort(remaining.Unknown)
}

// takeMore subtracts a device's consumption of the counters that the pool has, less the amounts in
// taken.
func takeMore(left []quantity.Amount, counters *inventory.Counters, consumptions []resourceapi.DeviceCounterConsumption, taken []inventory.Draw) {
	for i := range consumptions {
		for name, counter := range consumptions[i].Counters {
			number, found := counters.Number(consumptions[i].CounterSet, name)
			if !found {
				continue // Nothing can be allocated from a counter that is not published.
			}
			more := quantity.Of(counter.Value).Minus(drawnOf(taken, number))
			if !more.IsNegative() {
				left[number] = left[number].Minus(more)
			}
		}
	}
}

// drawnOf returns the amount of a counter that draws consume.
func drawnOf(draws []inventory.Draw, counter int) quantity.Amount {
	for _, draw := range draws {
		for number, drawn := range draw.All() {
			if number == counter {
				return drawn
			}
		}
	}
	return quantity.Amount{}
}
