package inventory

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// Counters holds the counters of all counter sets of a pool (KEP-4815). They are numbered, and
// those of one set are consecutive. The amounts left form a list indexed by that number.
type Counters struct {
	// Sets holds the sorted names of the counter sets.
	Sets []string
	// Names and Published are indexed by the number of the counter.
	Names     []string
	Published []quantity.Amount
	// Formats holds the format in which the driver writes each quantity, by number.
	Formats []resource.Format

	first []int    // by set: the number of its first counter
	draws [][]Draw // by position of the device; nil if no device consumes counters
}

// Draw is a device's consumption of one counter set.
type Draw struct {
	// Set is an index into Counters.Sets.
	Set int
	// first is the number of the set's first counter.
	first int
	// amounts is shared by devices that consume the same amounts from different sets.
	amounts []relativeAmount
}

type relativeAmount struct {
	counter int // number of the counter less that of the set's first counter
	amount  quantity.Amount
}

// All yields the numbers of the counters and the amount consumed of each.
func (d Draw) All() func(func(int, quantity.Amount) bool) {
	return func(yield func(int, quantity.Amount) bool) {
		for _, a := range d.amounts {
			if !yield(d.first+a.counter, a.amount) {
				return
			}
		}
	}
}

// CoveredBy reports whether enough is left, by number of the counter.
func (d Draw) CoveredBy(left []quantity.Amount) bool {
	own := left[d.first:]
	for i := range d.amounts {
		if !own[d.amounts[i].counter].Covers(d.amounts[i].amount) {
			return false
		}
	}
	return true
}

// TakeFrom subtracts the consumed amounts from those left.
func (d Draw) TakeFrom(left []quantity.Amount) {
	own := left[d.first:]
	for i := range d.amounts {
		n := d.amounts[i].counter
		own[n] = own[n].Minus(d.amounts[i].amount)
	}
}

// ReturnTo undoes TakeFrom.
func (d Draw) ReturnTo(left []quantity.Amount) {
	own := left[d.first:]
	for i := range d.amounts {
		n := d.amounts[i].counter
		own[n] = own[n].Plus(d.amounts[i].amount)
	}
}

// Range returns the range of numbers of the counters of a set; end is exclusive.
func (c *Counters) Range(set int) (first, end int) {
	if set+1 < len(c.first) {
		return c.first[set], c.first[set+1]
	}
	return c.first[set], len(c.Names)
}

// SetOf returns the name of the counter set of a counter.
func (c *Counters) SetOf(number int) string {
	after, _ := slices.BinarySearch(c.first, number+1)
	return c.Sets[after-1]
}

// Number returns the number of a counter, by the names of its set and the counter.
func (c *Counters) Number(set, counter string) (number int, found bool) {
	at, found := slices.BinarySearch(c.Sets, set)
	if !found {
		return 0, false
	}
	first, end := c.Range(at)
	number, found = slices.BinarySearch(c.Names[first:end], counter)
	return first + number, found
}

// Draws returns the consumption of the device at a position of Layout.Devices.
func (c *Counters) Draws(position int) []Draw {
	if c == nil || c.draws == nil {
		return nil
	}
	return c.draws[position]
}

// of returns the counters of a whole pool with the draws of a part of its devices.
func (c *Counters) of(l *Layout) *Counters {
	own := *c
	if own.draws = nil; c.draws == nil || l.Partitions.Empty() {
		return &own
	}
	own.draws = make([][]Draw, 0, len(l.Devices))
	for _, part := range l.parts {
		first := l.whole.parts[l.whole.partOf(part.slice)].first
		own.draws = append(own.draws, c.draws[first:first+len(part.slice.Spec.Devices)]...)
	}
	return &own
}

// noCounters is shared by all pools without counters.
var noCounters = new(Counters)

// newCounters numbers the counters that the slices define, determines what the devices consume, and
// returns an error if a device consumes a counter that is not defined.
func newCounters(list []*Slice, devices []Device) (*Counters, error) {
	if !countsAnything(list, devices) {
		return noCounters, nil
	}
	sets := make(map[string]*resourceapi.CounterSet)
	for _, slice := range list {
		for i := range slice.Spec.SharedCounters {
			set := &slice.Spec.SharedCounters[i]
			if _, found := sets[set.Name]; found {
				return nil, fmt.Errorf("counter set %s is defined twice", set.Name)
			}
			sets[set.Name] = set
		}
	}
	c := &Counters{Sets: slices.Sorted(maps.Keys(sets))}
	for _, set := range c.Sets {
		c.first = append(c.first, len(c.Names))
		for _, name := range slices.Sorted(maps.Keys(sets[set].Counters)) {
			value := sets[set].Counters[name].Value
			c.Names = append(c.Names, name)
			c.Published = append(c.Published, quantity.Of(value))
			c.Formats = append(c.Formats, value.Format)
		}
	}
	var err error
	if c.draws, err = c.drawsOf(devices); err != nil {
		return nil, err
	}
	return c, nil
}

func countsAnything(list []*Slice, devices []Device) bool {
	return slices.ContainsFunc(list, func(s *Slice) bool { return len(s.Spec.SharedCounters) > 0 }) ||
		slices.ContainsFunc(devices, func(d Device) bool { return len(d.ConsumesCounters) > 0 })
}

func (c *Counters) drawsOf(devices []Device) ([][]Draw, error) {
	known, total := make(map[string][]relativeAmount), 0
	for i := range devices {
		total += len(devices[i].ConsumesCounters)
	}
	if total == 0 {
		return nil, nil
	}
	// Allocate memory once for all: there may be hundreds of partitions on each node.
	draws := make([]Draw, 0, total)
	byDevice := make([][]Draw, len(devices))
	for i := range devices {
		start := len(draws)
		for j := range devices[i].ConsumesCounters {
			draw, err := c.newDraw(&devices[i], &devices[i].ConsumesCounters[j], known)
			if err != nil {
				return nil, err
			}
			draws = append(draws, draw)
		}
		byDevice[i] = draws[start:len(draws):len(draws)]
	}
	return byDevice, nil
}

func (c *Counters) newDraw(device *Device, consumption *resourceapi.DeviceCounterConsumption, known map[string][]relativeAmount) (Draw, error) {
	set, found := slices.BinarySearch(c.Sets, consumption.CounterSet)
	if !found {
		return Draw{}, fmt.Errorf("device %s consumes from counter set %s which the pool does not define",
			device.Name, consumption.CounterSet)
	}
	first, end := c.Range(set)
	amounts := make([]relativeAmount, 0, len(consumption.Counters))
	for _, name := range slices.Sorted(maps.Keys(consumption.Counters)) {
		number, found := slices.BinarySearch(c.Names[first:end], name)
		if !found {
			return Draw{}, fmt.Errorf("device %s consumes counter %s which counter set %s does not define",
				device.Name, name, consumption.CounterSet)
		}
		amounts = append(amounts, relativeAmount{number, quantity.Of(consumption.Counters[name].Value)})
	}
	return Draw{Set: set, first: first, amounts: shared(amounts, known)}, nil
}

// shared returns a known equal list if there is one.
func shared(amounts []relativeAmount, known map[string][]relativeAmount) []relativeAmount {
	key := appendAmounts(nil, amounts)
	if same, found := known[string(key)]; found {
		return same
	}
	known[string(key)] = amounts
	return amounts
}

// AppendTo appends the consumed amounts without the set, so that equal amounts have equal
// encodings.
func (d Draw) AppendTo(b []byte) []byte { return appendAmounts(b, d.amounts) }

func appendAmounts(b []byte, amounts []relativeAmount) []byte {
	b = binary.AppendVarint(b, int64(len(amounts)))
	for _, a := range amounts {
		b = a.amount.AppendTo(binary.AppendVarint(b, int64(a.counter)))
	}
	return b
}
