package ledger

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// LimitKind is a kind of resource that all claims together can use only so much of.
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

// Limit identifies a counter, counter set or capacity of a pool that all claims together can use
// only so much of.
type Limit struct {
	Kind     LimitKind
	number   int // number of the counter or the counter set
	device   string
	capacity resourceapi.QualifiedName
}

// Need is the demand of a device or a share on a limit.
type Need struct {
	// Amount is used for counters and capacities.
	Amount quantity.Amount
	// CompatibilityGroups holds those of the device.
	CompatibilityGroups []string
}

// IsNothing reports whether the need is always met, whatever others take.
func (l Limit) IsNothing(n Need) bool {
	return l.Kind != CompatibilityLimit && n.Amount == (quantity.Amount{})
}

// Room is the part of a limit that is left. Copies are independent of each other.
type Room struct {
	Limit
	left     quantity.Amount
	together inventory.CompatibilityGroups
}

// Take subtracts one more need, and reports whether it fits in beside those before it. A need that
// does not fit is subtracted as well: the amount left of a counter or capacity is then negative.
func (r *Room) Take(n Need) bool {
	if r.Kind == CompatibilityLimit {
		joined, fits := r.together.Join(n.CompatibilityGroups)
		r.together = joined
		return fits
	}
	r.left = r.left.Minus(n.Amount)
	return !r.left.IsNegative()
}

// Limits holds the counter and compatibility limits of a pool.
type Limits struct {
	pool          *inventory.NodePool
	compatibility bool
}

// LimitsOf returns the limits of a pool. An incomplete pool has none.
func LimitsOf(pool *inventory.NodePool) Limits { return Limits{pool, pool.HasCompatibilityGroups()} }

// Drawn yields what a device takes of the limits as soon as it is in use, as published now. It
// counts once, however many claims share the device. A device that is not published yields nothing
// here; PoolUsage.Remaining accounts for its former consumption.
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

// Room returns the full room of a limit that Drawn yielded, as if no device were in use.
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

// CapacityOf returns the full room of a capacity of a device. It returns false if the device has no
// capacity of that name: shares may then take any amount.
func CapacityOf(device *inventory.Device, name resourceapi.QualifiedName) (Room, bool) {
	capacity, found := device.Capacity[name]
	if !found {
		return Room{}, false
	}
	limit := Limit{Kind: CapacityLimit, device: device.Name, capacity: name}
	return Room{Limit: limit, left: quantity.Of(capacity.Value)}, true
}
