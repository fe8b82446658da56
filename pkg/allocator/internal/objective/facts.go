package objective

import (
	"maps"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Facts holds an objective's knowledge of the devices of a pool, by position, independent of their use. It is immutable.
type Facts struct {
	// Size is the worth of a device, in whole devices: 1, or the fraction that a partition takes of the
	// counters that it shares with others.
	Size []float64
	// Unit numbers the physical devices: devices that draw from the same counter sets, directly or through
	// others, have the same number. Numbers are below Units.
	Unit  []int32
	Units int
	// Place is equal for devices that take the same place of a unit, 0 if the place is unknown. Takes is by
	// place, see placement.State.
	Place []int32
	Takes []uint64
	// Capacity is equal for shareable devices with the same capacities, 0 for devices that cannot be shared.
	Capacity []int32
}

// factsKey is the key of a layout's Facts.
type factsKey struct{}

// FactsOf returns the Facts of a pool.
func FactsOf(pool *inventory.NodePool) *Facts {
	return inventory.Cached(&pool.Derived, factsKey{}, func() *Facts { return newFacts(pool.Layout) })
}

func newFacts(l *inventory.Layout) *Facts {
	f := &Facts{Size: make([]float64, len(l.Devices)), Unit: make([]int32, len(l.Devices)), Capacity: make([]int32, len(l.Devices))}
	measuring := fractional(l)
	for i := range l.Devices {
		f.Size[i] = 1
		if draws := l.Counters.Draws(i); len(draws) > 0 {
			f.Size[i] = measuring.sizeOf(draws)
		}
	}
	f.setUnits(l)
	f.setPlaces(l, &measuring)
	f.setCapacities(l)
	return f
}

// counters are the counters of a layout, for measuring sizes.
type counters struct {
	published []float64
	// partly marks the counters that some device draws partially. A counter that each device draws whole or
	// not at all, for example a memory slice, gives the position of a partition, not its size.
	partly []bool
}

func fractional(l *inventory.Layout) counters {
	if l.Counters == nil {
		return counters{}
	}
	c := counters{published: make([]float64, len(l.Counters.Published)), partly: make([]bool, len(l.Counters.Published))}
	for number, published := range l.Counters.Published {
		c.published[number] = published.Float()
	}
	for i := range l.Partitions.All() {
		for _, draw := range l.Counters.Draws(i) {
			for number, drawn := range draw.All() {
				if part := drawn.Float(); part > 0 && part < c.published[number] {
					c.partly[number] = true
				}
			}
		}
	}
	return c
}

// sizeOf returns the largest fraction drawn of any counter, at most 1. If all counters are drawn whole or not
// at all, it returns the fraction of the counters that are drawn.
func (c *counters) sizeOf(draws []inventory.Draw) float64 {
	size, drawnWhole := 0.0, 0
	for _, draw := range draws {
		for number, drawn := range draw.All() {
			switch part := drawn.Float(); {
			case part <= 0 || c.published[number] <= 0:
			case c.partly[number]:
				size = max(size, part/c.published[number])
			default:
				drawnWhole++
			}
		}
	}
	if size == 0 && len(c.published) > 0 {
		size = float64(drawnWhole) / float64(len(c.published))
	}
	return min(size, 1)
}

// setUnits assigns the same unit to devices with common counter sets.
func (f *Facts) setUnits(l *inventory.Layout) {
	var sets []int // union-find: by set, its parent
	if l.Counters != nil {
		sets = make([]int, len(l.Counters.Sets))
	}
	for i := range sets {
		sets[i] = i
	}
	root := func(set int) int {
		for sets[set] != set {
			set = sets[set]
		}
		return set
	}
	for i := range l.Devices {
		for _, draw := range l.Counters.Draws(i)[min(1, len(l.Counters.Draws(i))):] {
			sets[root(draw.Set)] = root(l.Counters.Draws(i)[0].Set)
		}
	}
	numbers := make([]int32, len(sets)) // by set: the number of the unit plus 1
	for i := range l.Devices {
		draws := l.Counters.Draws(i)
		if len(draws) == 0 {
			f.Unit[i] = int32(f.Units)
			f.Units++
			continue
		}
		number := &numbers[root(draws[0].Set)]
		if *number == 0 {
			f.Units++
			*number = int32(f.Units)
		}
		f.Unit[i] = *number - 1
	}
}

func (f *Facts) setCapacities(l *inventory.Layout) {
	var different []int // positions of devices
	for i := range l.Shareable.All() {
		number := slices.IndexFunc(different, func(other int) bool {
			return maps.EqualFunc(l.Devices[i].Capacity, l.Devices[other].Capacity, sameCapacity)
		})
		if number < 0 {
			number = len(different)
			different = append(different, i)
		}
		f.Capacity[i] = int32(number + 1)
	}
}

// sameCapacity compares without calculating, because quantities like 1e999999999 do not allow calculations.
// Policies that are written differently count as different.
func sameCapacity(a, b resourceapi.DeviceCapacity) bool {
	return quantity.Of(a.Value) == quantity.Of(b.Value) && reflect.DeepEqual(a.RequestPolicy, b.RequestPolicy)
}

// Left returns the fraction that is left of a shareable device, from 0 to 1, by its scarcest capacity. taken
// is consumed in addition to the shares in used.
func Left(device *inventory.Device, used []ledger.Share, taken capacity.Amounts) float64 {
	left := 1.0
	for name, published := range device.Capacity {
		total := quantity.Of(published.Value).Float()
		if total <= 0 {
			continue
		}
		consumed := quantity.Of(taken[name])
		for i := range used {
			if q, found := used[i].Consumed[name]; found {
				consumed = consumed.Plus(quantity.Of(q))
			}
		}
		left = min(left, 1-consumed.Float()/total)
	}
	return max(left, 0)
}
