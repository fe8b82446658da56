package ledger

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// LimitKind says of what there is only so much for all claims together.
type LimitKind int

const (
	// CounterLimit is a counter of the pool (KEP-4815).
	CounterLimit LimitKind = iota
	// CompatibilityLimit is a counter set from which only devices with a compatibility group in
	// common may draw at the same time (DRADeviceCompatibilityGroups).
	CompatibilityLimit
	// CapacityLimit is a capacity of a device (KEP-5075).
	CapacityLimit
)

// Limit identifies something of a pool of which there is only so much.
type Limit struct {
	Kind     LimitKind
	number   int // of the counter, or of the counter set
	device   string
	capacity resourceapi.QualifiedName
}

// Need is what a device or a share takes of a limit.
type Need struct {
	// Amount is for counters and capacities.
	Amount amount.Amount
	// CompatibilityGroups are those of the device.
	CompatibilityGroups []string
}

// IsNothing reports whether the need is met whatever others take.
func (l Limit) IsNothing(n Need) bool {
	return l.Kind != CompatibilityLimit && n.Amount == (amount.Amount{})
}

// Room is what is left of a limit. Copies of it are independent of each other.
type Room struct {
	Limit
	left     amount.Amount
	together inventory.CompatibilityGroups
}

// Take takes one more need, and reports whether it fits in beside those before it. One that
// does not fit is taken as well: of a counter or a capacity, less than nothing is left then.
func (r *Room) Take(n Need) bool {
	if r.Kind == CompatibilityLimit {
		joined, fits := r.together.Join(n.CompatibilityGroups)
		r.together = joined
		return fits
	}
	r.left = r.left.Minus(n.Amount)
	return !r.left.IsNegative()
}

// Limits are those of a pool for all that draws from its counters.
type Limits struct {
	pool          *inventory.NodePool
	compatibility bool
}

// LimitsOf returns the limits of a pool. One that is not complete has none.
func LimitsOf(pool *inventory.NodePool) Limits { return Limits{pool, pool.HasCompatibilityGroups()} }

// Drawn yields what a device takes as soon as anybody uses it, once however many claims
// share it, as it is published now. A device that is not published takes nothing here; what it drew when
// it was, PoolUsage.Remaining knows.
func (l Limits) Drawn(device string) iter.Seq2[Limit, Need] {
	return func(yield func(Limit, Need) bool) {
		var consumptions []resourceapi.DeviceCounterConsumption // in the order of draws
		if l.compatibility {
			consumptions = l.pool.Consumptions(device)
		}
		for i, draw := range l.pool.Draws(device) {
			for number, drawn := range draw.All() {
				if !yield(Limit{Kind: CounterLimit, number: number}, Need{Amount: drawn}) {
					return
				}
			}
			if l.compatibility && !yield(Limit{Kind: CompatibilityLimit, number: draw.Set}, Need{CompatibilityGroups: consumptions[i].CompatibilityGroups}) {
				return
			}
		}
	}
}

// Room returns what is left of a limit that Drawn has named as long as nobody uses anything.
func (l Limits) Room(limit Limit) Room {
	room := Room{Limit: limit}
	if limit.Kind == CounterLimit {
		room.left = l.pool.Counters.Published[limit.number]
	}
	return room
}

// Name returns "counter set/counter", or the name of the counter set.
func (l Limits) Name(limit Limit) string {
	counters := l.pool.Counters
	if limit.Kind == CompatibilityLimit {
		return counters.Sets[limit.number]
	}
	return counters.SetOf(limit.number) + "/" + counters.Names[limit.number]
}

// CapacityOf returns what there is of a capacity of a device, false if it has none of that
// name: then shares may take any amount.
func CapacityOf(device *inventory.Device, name resourceapi.QualifiedName) (Room, bool) {
	capacity, found := device.Capacity[name]
	if !found {
		return Room{}, false
	}
	limit := Limit{Kind: CapacityLimit, device: device.Name, capacity: name}
	return Room{Limit: limit, left: amount.Of(capacity.Value)}, true
}
