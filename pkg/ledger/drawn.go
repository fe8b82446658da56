package ledger

import (
	"iter"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A driver may withdraw a device that is in use, or publish that it draws less. What the claim uses goes
// on to draw as much as when it got the device: a ledger that follows the slices remembers that for as long as
// anybody uses the device. If it was started later, it cannot: a device in use that a complete pool with
// counter sets has not, and that is in no slice of an older generation either, may draw from any of these sets.
//
// Upstream counts such devices for nothing. All other views do the same (NewPoolUsage, NewHeldUsage, and with
// them allocator.New, which has to give upstream's results; a Ledger without Follow): they do not know what was
// published before.

// drawn is what slices that are not there any more said that a device in use consumes of counters: of each
// counter the most. A counter set is there several times if different compatibility groups were published for it:
// what joins the device has to go with all of them. It is immutable.
type drawn []resourceapi.DeviceCounterConsumption

// mostDrawn is of how many counters it is remembered for a device. A driver that goes on to invent others must not
// fill the memory.
const mostDrawn = 256

// beyond stands for more than mostDrawn: then it is as if nobody knew what the device draws.
var beyond = new(drawn)

// Follow has the ledger judge counters and capacities by what a store has, and remember what devices in use
// draw. It has to be called before either is used.
func (l *Ledger) Follow(store *inventory.Store) {
	l.Pools = func(id inventory.PoolID) *inventory.NodePool {
		if pool := store.Pool(id); pool != nil {
			return pool.Everywhere()
		}
		return nil
	}
	store.Superseded, l.followed = l.superseded, store
}

// superseded is told of slices as inventory.Store says: what was published of devices in use is
// remembered, unless it still is.
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
		// What is remembered already, or published, is newer.
		isOver = func(device *resourceapi.Device, _ int) bool {
			return before.Device(device.Name).drawn == nil && pool.Everywhere().Device(device.Name) == nil
		}
	}
	if after := before.remember(slice, isOver); after != before {
		l.store(id, after)
	}
}

// remember returns the usage with what a slice says of those devices in use, at a position, of which that is over.
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

// consumesTheSame reports whether a slice, which may be nil, has a device as another one has it at a position.
func consumesTheSame(slice *inventory.Slice, at int, device *resourceapi.Device) bool {
	if slice == nil {
		return false
	}
	devices := slice.Spec.Devices
	if at >= len(devices) || devices[at].Name != device.Name {
		at = slices.IndexFunc(devices, func(d resourceapi.Device) bool { return d.Name == device.Name })
	}
	return at >= 0 && amount.DeepEqual(devices[at].ConsumesCounters, device.ConsumesCounters)
}

// and returns the most of both of each counter, and the compatibility groups of both.
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
			if before, found := counters[name]; !found || amount.Compare(counter.Value, before.Value) > 0 {
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

// Withdrawn yields the devices in use that a pool does not publish any more, or not as before, in no order, and what
// they consumed of counters before.
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

// Consumption is what a device in use that is not published as before consumes of counters. If nobody knows that, it
// may be anything of any counter.
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

// HasCompatibilityGroups reports whether any device of a pool has compatibility groups, or one in use had some when something
// else was published of it.
func (u *PoolUsage) HasCompatibilityGroups(pool *inventory.NodePool) bool {
	return pool.HasCompatibilityGroups() || u.follows && u.Remaining(pool).formerGroups
}

// takeFormer takes what devices in use draw beyond what is published of them.
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

// takeMore takes what a device consumes of the counters that the pool has, less what was taken already.
func takeMore(left []amount.Amount, counters *inventory.Counters, consumptions []resourceapi.DeviceCounterConsumption, taken []inventory.Draw) {
	for i := range consumptions {
		for name, counter := range consumptions[i].Counters {
			number, found := counters.Number(consumptions[i].CounterSet, name)
			if !found {
				continue // Of what is not published, nobody gets anything.
			}
			more := amount.Of(counter.Value).Minus(drawnOf(taken, number))
			if !more.IsNegative() {
				left[number] = left[number].Minus(more)
			}
		}
	}
}

// drawnOf returns what draws take of a counter.
func drawnOf(draws []inventory.Draw, counter int) amount.Amount {
	for _, draw := range draws {
		for number, drawn := range draw.All() {
			if number == counter {
				return drawn
			}
		}
	}
	return amount.Amount{}
}
