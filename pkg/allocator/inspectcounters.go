package allocator

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// shortfall is an amount of something with a name of which too little is left.
type shortfall struct {
	name         string
	needed, left resource.Quantity
}

// counter is the name without that of the counter set, which often is another one
// for each device.
func (s *shortfall) counter() string {
	_, counter, _ := strings.Cut(s.name, "/")
	return counter
}

// drawsNothing reports whether counters do not matter for a device: it has none, or
// others share it already.
func (in *inspection) drawsNothing(device *inventory.Device) bool {
	return len(device.ConsumesCounters) == 0 ||
		in.s.shared(device) && len(in.usage.Devices[device.Name].Shares) > 0
}

// overdrawn reports whether a counter of the pool is below zero. Then nothing can be
// had that draws on any.
func (in *inspection) overdrawn() bool { return in.usage.Remaining(in.pool).Overdrawn }

// shortCounters are the counters, as set/counter, of which too little is left for a
// device. If the pool is overdrawn, the counters below zero are among them.
func (in *inspection) shortCounters(device *inventory.Device) []shortfall {
	var list []shortfall
	left := in.usage.Remaining(in.pool)
	for _, consumption := range device.ConsumesCounters {
		for name, needed := range consumption.Counters {
			if have := left.Counters[consumption.CounterSet][name]; have.Cmp(needed.Value) < 0 {
				list = append(list, shortfall{consumption.CounterSet + "/" + name, needed.Value, have})
			}
		}
	}
	if left.Overdrawn && len(list) == 0 {
		for set, counters := range left.Counters {
			for name, have := range counters {
				if have.Sign() < 0 {
					list = append(list, shortfall{set + "/" + name, resource.Quantity{Format: have.Format}, have})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b shortfall) int { return cmp.Compare(a.name, b.name) })
	return list
}

// drawing names the devices in use, on whatever node, that draw on a counter, given
// as set/counter.
func (in *inspection) drawing(counter string) []string {
	var list []string
	for _, devices := range [][]inventory.Device{in.pool.Devices, in.pool.Elsewhere} {
		for i := range devices {
			if _, used := in.usage.Devices[devices[i].Name]; used && drawsOn(&devices[i], counter) {
				list = append(list, devices[i].Name)
			}
		}
	}
	return list
}

func drawsOn(device *inventory.Device, counter string) bool {
	set, name, _ := strings.Cut(counter, "/")
	for _, consumption := range device.ConsumesCounters {
		if _, found := consumption.Counters[name]; found && consumption.CounterSet == set {
			return true
		}
	}
	return false
}

// contention adds up what available devices draw on counters, by driver/pool/set/counter.
type contention map[string]*Contention

func (c *contention) add(in *inspection, device int) {
	published := &in.pool.Devices[device]
	if in.drawsNothing(published) {
		return
	}
	if *c == nil {
		*c = make(contention)
	}
	left := in.usage.Remaining(in.pool).Counters
	for _, consumption := range published.ConsumesCounters {
		for name, needed := range consumption.Counters {
			counter := in.pool.ID.String() + "/" + consumption.CounterSet + "/" + name
			known := (*c)[counter]
			if known == nil {
				known = &Contention{Counter: counter, Left: left[consumption.CounterSet][name].DeepCopy()}
				(*c)[counter] = known
			}
			known.Devices++
			known.Needed.Add(needed.Value)
		}
	}
}

// sorted lists those of which too little is left, most devices first.
func (c *contention) sorted() []Contention {
	var list []Contention
	for _, one := range *c {
		if one.Needed.Cmp(one.Left) > 0 {
			list = append(list, *one)
		}
	}
	slices.SortFunc(list, func(a, b Contention) int {
		return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Counter, b.Counter))
	})
	return list
}

// sharedCounters are the counters, without their sets, that the available devices of
// a request draw on, and whether any of these devices has compatibility groups.
func (s *search) sharedCounters(slot *slot) (counters []string, groups bool) {
	names := make(map[string]bool)
	for _, r := range slot.alternatives {
		for _, in := range s.inspect(r) {
			for device := range in.selection.Matches.All() {
				if in.cause(device) != Available {
					continue
				}
				for _, consumption := range in.pool.Devices[device].ConsumesCounters {
					groups = groups || s.solver.Features.CompatibilityGroups && len(consumption.CompatibilityGroups) > 0
					for name := range consumption.Counters {
						names[name] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), groups
}
