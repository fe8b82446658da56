package objective

import (
	"maps"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Facts is what an objective knows of the devices of a pool, by position, whatever is used of
// them. It is immutable.
type Facts struct {
	// Size is what a device is worth, in whole devices: 1, or what a partition takes of the counters
	// that it shares with others.
	Size []float64
	// Unit is the same number for devices that are cut out of the same thing: those that draw from
	// the same counter sets, if only by way of others. Numbers are below Units.
	Unit  []int32
	Units int
	// Place is the same number for devices that take the same place of a unit, 0 for those of which
	// it is not known; Takes is by place, see placement.State.
	Place []int32
	Takes []uint64
	// Capacity is the same number for devices with the same capacities that can be shared, 0 for
	// those that cannot be shared.
	Capacity []int32
}

// factsKey is where a layout keeps its Facts.
type factsKey struct{}

// FactsOf returns what is known of a pool.
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

// counters of a layout, as sizes are measured with them.
type counters struct {
	published []float64
	// partly are the counters of which some device draws a part. One that each device draws whole
	// or not at all, such as a memory slice, says where a partition is and not how large.
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

// sizeOf is the largest part that is drawn of any counter, at most 1. If all counters are drawn
// whole or not at all, it is the part of the counters that are drawn.
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

// setUnits joins devices with common counter sets.
func (f *Facts) setUnits(l *inventory.Layout) {
	var sets []int // by set: one that it is joined with, maybe itself
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

// sameCapacity compares without calculating, which quantities such as 1e999999999 do not allow.
// Policies that are written differently count as different.
func sameCapacity(a, b resourceapi.DeviceCapacity) bool {
	return amount.Of(a.Value) == amount.Of(b.Value) && reflect.DeepEqual(a.RequestPolicy, b.RequestPolicy)
}

// Left is how much of a device that can be shared is left, from 0 to 1: of the capacity that is
// scarcest. taken is what is taken of it beside what others consume.
func Left(device *inventory.Device, used []ledger.Share, taken capacity.Amounts) float64 {
	left := 1.0
	for name, published := range device.Capacity {
		total := amount.Of(published.Value).Float()
		if total <= 0 {
			continue
		}
		consumed := amount.Of(taken[name])
		for i := range used {
			if q, found := used[i].Consumed[name]; found {
				consumed = consumed.Plus(amount.Of(q))
			}
		}
		left = min(left, 1-consumed.Float()/total)
	}
	return max(left, 0)
}
