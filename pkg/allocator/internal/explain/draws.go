package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// shortfall is a named amount with too little left.
type shortfall struct {
	name                string
	needed, left, there resource.Quantity
}

// lack returns the shortfall as a text with numbers.
func (s *shortfall) lack() lack {
	return lack{fmt.Sprintf("%s asked and %s of %s left", s.needed.String(), s.left.String(), s.there.String()), s.by()}
}

// counter returns the name without the counter set, whose name often differs for each device.
func (s *shortfall) counter() string {
	_, counter, _ := strings.Cut(s.name, "/")
	return counter
}

// by returns the missing amount.
func (s *shortfall) by() resource.Quantity {
	return quantity.Difference(s.needed, s.left)
}

// drawsNothing reports whether counters do not matter for a device: it draws on none, or it has shares in
// use, which already account for its draws.
func (in *inspection) drawsNothing(device int) bool {
	return !in.pool.Partitions.Has(device) ||
		in.q.CanShare(in.index, device) && len(in.usage.Device(in.pool.Devices[device].Name).Shares) > 0
}

// overdrawn reports whether a counter of the pool is below zero. Then no device that draws on any counter is available.
func (in *inspection) overdrawn() bool { return in.usage.Remaining(in.pool).Overdrawn }

// unknown returns the devices in use whose draws on the pool's counters are unknown.
func (in *inspection) unknown() []string { return in.usage.Remaining(in.pool).Unknown }

// shortCounters returns the counters, as set/counter, with too little left for a device. If the pool is
// overdrawn and no counter of the device is short, it returns the counters below zero.
func (in *inspection) shortCounters(device int) []shortfall {
	var list []shortfall
	counters, left := in.pool.Counters, in.usage.Remaining(in.pool)
	for _, draw := range counters.Draws(device) {
		for number, needed := range draw.All() {
			if have := left.Amounts[number]; !have.Covers(needed) {
				list = append(list, in.shortfall(draw.Set, number, needed))
			}
		}
	}
	if left.Overdrawn && len(list) == 0 {
		for set := range counters.Sets {
			for number, end := counters.Range(set); number < end; number++ {
				if left.Amounts[number].IsNegative() {
					list = append(list, in.shortfall(set, number, quantity.Amount{}))
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b shortfall) int { return cmp.Compare(a.name, b.name) })
	return list
}

// shortfall returns the shortfall of a counter, given by its number.
func (in *inspection) shortfall(set, number int, needed quantity.Amount) shortfall {
	counters := in.pool.Counters
	return shortfall{counters.Sets[set] + "/" + counters.Names[number],
		needed.Quantity(counters.Formats[number]), in.left(number), in.there(number)}
}

// left returns the remaining amount of a counter.
func (in *inspection) left(number int) resource.Quantity {
	return in.usage.Remaining(in.pool).Amounts[number].Quantity(in.pool.Counters.Formats[number])
}

// there returns the value of a counter without any use.
func (in *inspection) there(number int) resource.Quantity {
	return in.pool.Counters.Published[number].Quantity(in.pool.Counters.Formats[number])
}

// drawing returns the names of the devices in use, on any node, that draw on a counter, given as set/counter.
// A device whose published draws have changed may appear twice.
func (in *inspection) drawing(counter string) []string {
	var list []string
	add := func(device *inventory.Device) {
		if in.usage.Uses(device.Name) && drawsOn(device.ConsumesCounters, counter) {
			list = append(list, device.Name)
		}
	}
	for i := range in.pool.Devices {
		add(&in.pool.Devices[i])
	}
	for device := range in.pool.Elsewhere() {
		add(device)
	}
	for name, device := range in.usage.Withdrawn(in.pool) {
		if drawsOn(device.Of, counter) {
			list = append(list, name)
		}
	}
	return list
}

func drawsOn(consumptions []resourceapi.DeviceCounterConsumption, counter string) bool {
	set, name, _ := strings.Cut(counter, "/")
	return slices.ContainsFunc(consumptions, func(consumption resourceapi.DeviceCounterConsumption) bool {
		_, found := consumption.Counters[name]
		return found && consumption.CounterSet == set
	})
}

// contention sums the draws of available devices by counter, as driver/pool/set/counter.
type contention map[string]*Contention

func (c *contention) add(in *inspection, device int) {
	if in.drawsNothing(device) {
		return
	}
	if *c == nil {
		*c = make(contention)
	}
	counters := in.pool.Counters
	for _, draw := range counters.Draws(device) {
		for number, needed := range draw.All() {
			counter := in.pool.ID.String() + "/" + counters.Sets[draw.Set] + "/" + counters.Names[number]
			known := (*c)[counter]
			if known == nil {
				known = &Contention{Counter: counter, Left: in.left(number)}
				(*c)[counter] = known
			}
			known.Devices++
			known.Needed = quantity.Sum(known.Needed, needed.Quantity(counters.Formats[number]))
		}
	}
}

// sorted returns the counters with too little left, most devices first.
func (c *contention) sorted() []Contention {
	var list []Contention
	for _, one := range *c {
		if quantity.Compare(one.Needed, one.Left) > 0 {
			list = append(list, *one)
		}
	}
	slices.SortFunc(list, func(a, b Contention) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Counter, b.Counter))
	})
	return list
}

// sharedCounters returns the counters, without their sets, that the available devices of a request draw on.
// It also reports whether any of these devices has compatibility groups.
func (q inquiry) sharedCounters(slot *task.Slot) (counters []string, compatibility bool) {
	names := make(map[string]bool)
	for _, r := range slot.Alternatives {
		for _, in := range q.inspect(r) {
			for device := range in.selection.Matches.All() {
				if in.cause(device) != Available {
					continue
				}
				for _, consumption := range in.pool.Devices[device].ConsumesCounters {
					compatibility = compatibility || q.Asked().Settings().Features.CompatibilityGroups && len(consumption.CompatibilityGroups) > 0
					for name := range consumption.Counters {
						names[name] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), compatibility
}
