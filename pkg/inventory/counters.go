package inventory

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
)

// Counters are the counters of all sets of a pool (KEP-4815), numbered: those of one
// set follow each other. What is left of them is a list by number.
type Counters struct {
	// Sets are the names of the counter sets, sorted.
	Sets []string
	// Names and Published are by number of the counter.
	Names     []string
	Published []amount.Amount
	// Formats is how the driver writes the quantities, by number.
	Formats []resource.Format

	first []int    // by set: the number of its first counter
	draws [][]Draw // by position of the device; nil if none draws anything
}

// Draw is what a device consumes of one counter set.
type Draw struct {
	// Set is an index into Counters.Sets.
	Set int
	// first is the number of the set's first counter.
	first int
	// amounts are shared by devices which consume the same of different sets.
	amounts []relativeAmount
}

type relativeAmount struct {
	counter int // number less that of the set's first counter
	amount  amount.Amount
}

// All yields the numbers of the counters and how much is consumed of each.
func (d Draw) All() func(func(int, amount.Amount) bool) {
	return func(yield func(int, amount.Amount) bool) {
		for _, a := range d.amounts {
			if !yield(d.first+a.counter, a.amount) {
				return
			}
		}
	}
}

// CoveredBy reports whether there is enough left, by number of the counter.
func (d Draw) CoveredBy(left []amount.Amount) bool {
	own := left[d.first:]
	for i := range d.amounts {
		if !own[d.amounts[i].counter].Covers(d.amounts[i].amount) {
			return false
		}
	}
	return true
}

// TakeFrom subtracts what is consumed from what is left.
func (d Draw) TakeFrom(left []amount.Amount) {
	own := left[d.first:]
	for i := range d.amounts {
		n := d.amounts[i].counter
		own[n] = own[n].Minus(d.amounts[i].amount)
	}
}

// ReturnTo undoes TakeFrom.
func (d Draw) ReturnTo(left []amount.Amount) {
	own := left[d.first:]
	for i := range d.amounts {
		n := d.amounts[i].counter
		own[n] = own[n].Plus(d.amounts[i].amount)
	}
}

// Range returns the numbers of the counters of a set: from first to before end.
func (c *Counters) Range(set int) (first, end int) {
	if set+1 < len(c.first) {
		return c.first[set], c.first[set+1]
	}
	return c.first[set], len(c.Names)
}

// SetOf returns the name of the counter set that a counter is of.
func (c *Counters) SetOf(number int) string {
	after, _ := slices.BinarySearch(c.first, number+1)
	return c.Sets[after-1]
}

// Number returns the number of a counter by the names of its set and itself.
func (c *Counters) Number(set, counter string) (number int, found bool) {
	at, found := slices.BinarySearch(c.Sets, set)
	if !found {
		return 0, false
	}
	first, end := c.Range(at)
	number, found = slices.BinarySearch(c.Names[first:end], counter)
	return first + number, found
}

// Draws returns what the device at a position of Layout.Devices consumes.
func (c *Counters) Draws(position int) []Draw {
	if c == nil || c.draws == nil {
		return nil
	}
	return c.draws[position]
}

// of returns the counters, which are those of a whole pool, for a part of it.
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

// noCounters are those of all pools without any.
var noCounters = new(Counters)

// newCounters numbers the counters that the slices define, determines what the devices
// consume, and checks that they consume only what is defined.
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
			c.Published = append(c.Published, amount.Of(value))
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
	// One piece of memory for all: there may be hundreds of partitions on each node.
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
		amounts = append(amounts, relativeAmount{number, amount.Of(consumption.Counters[name].Value)})
	}
	return Draw{Set: set, first: first, amounts: shared(amounts, known)}, nil
}

// shared returns an equal list that is known already, if there is one.
func shared(amounts []relativeAmount, known map[string][]relativeAmount) []relativeAmount {
	key := appendAmounts(nil, amounts)
	if same, found := known[string(key)]; found {
		return same
	}
	known[string(key)] = amounts
	return amounts
}

// AppendTo appends what is consumed, without the set, so that equal amounts look the
// same.
func (d Draw) AppendTo(b []byte) []byte { return appendAmounts(b, d.amounts) }

func appendAmounts(b []byte, amounts []relativeAmount) []byte {
	b = binary.AppendVarint(b, int64(len(amounts)))
	for _, a := range amounts {
		b = a.amount.AppendTo(binary.AppendVarint(b, int64(a.counter)))
	}
	return b
}
