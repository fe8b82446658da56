package inventory

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
)

// Layout is what is the same for all nodes which the same slices of a pool are for: all but
// which of the devices they reach. It is immutable and belongs to one version of the pool.
type Layout struct {
	// Devices are all devices of the slices, in the order in which they are tried: by name
	// of the slice, then as the slice lists them. A device is identified by its position
	// here.
	Devices []Device
	// Tainted are the devices with any taint.
	Tainted bitset.Set
	// Partitions are the devices that consume counters (KEP-4815).
	Partitions bitset.Set
	// Conditional are the devices with binding conditions (KEP-5007).
	Conditional bitset.Set
	// Skipping are the devices for which the kubelet has to leave out operations.
	Skipping bitset.Set
	// OfNode are the devices that stand for, or need, resources of the node such as CPU and
	// memory (KEP-5517).
	OfNode bitset.Set
	// Shareable are the devices that can be allocated several times (KEP-5075).
	Shareable bitset.Set
	// all are all devices.
	all bitset.Set
	// Counters are the pool's counters (KEP-4815); nil if they are not understood.
	Counters *Counters
	// BindingConditions is true if any device has binding conditions. Such pools
	// are tried after all others (KEP-5007).
	BindingConditions bool
	// Content holds what was derived from what the Devices look like. If they are those
	// of one slice, it is the slice's.
	Content *Content
	// Derived holds what was derived from anything else in the pool.
	Derived Cache

	// parts are the slices that hold Devices. Most layouts have one: sole.
	parts []part
	sole  [1]part
	// positions are those of the devices by name; nil if that of the whole pool will do, or
	// if few is set: then the devices are looked through.
	positions map[string]int
	few       bool
	// whole is the layout of all slices of the generation, wherever they are for; nil if
	// nothing can be allocated.
	whole *Layout
	// ordered are the parts in the order of the pool, if this is the whole of another layout:
	// which one comes first matters if devices in use should never have got together
	// (CompatibilityGroups.Force).
	ordered []part
	// former are the slices of older generations that there still are, older ones first, if this is the
	// whole of a layout.
	former []*Slice
	// err is why nothing can be allocated, countersErr why Counters are not known.
	err, countersErr error
	// repeated is the name of a device that there is twice, "" if there is none.
	repeated string
}

// part is a slice and the position of its first device.
type part struct {
	slice *Slice
	first int
}

// fewParts is how many slices are looked through for one of them.
const fewParts = 4

// fewDevices is how many devices are looked through for a name: to make a map of them takes
// longer than all that is asked for afterwards.
const fewDevices = 8

// Position returns the index of the named device in Devices.
func (l *Layout) Position(device string) (int, bool) {
	if l.few || l.positions != nil || l.whole == nil || l.whole == l {
		return l.ownPosition(device)
	}
	i, found := l.whole.ownPosition(device)
	if !found {
		return 0, false
	}
	slice := l.whole.Devices[i].Slice
	here := l.partOf(slice)
	if here < 0 {
		return 0, false
	}
	return l.parts[here].first + i - l.whole.firstOf(i), true
}

// ownPosition is Position for layouts that do not rely on that of the whole pool.
func (l *Layout) ownPosition(device string) (int, bool) {
	if !l.few {
		i, found := l.positions[device]
		return i, found
	}
	for i := range l.Devices {
		if l.Devices[i].Name == device {
			return i, true
		}
	}
	return 0, false
}

// partOf returns the index among parts of a slice, -1 if it is not one of them.
func (l *Layout) partOf(slice *Slice) int {
	return slices.IndexFunc(l.parts, func(p part) bool { return p.slice == slice })
}

// firstOf returns the position of the first device of the slice that a position is of.
func (l *Layout) firstOf(position int) int {
	i, found := slices.BinarySearchFunc(l.parts, position, func(p part, position int) int { return p.first - position })
	if !found {
		i--
	}
	return l.parts[i].first
}

// Whole identifies what is drawn from the same counters: it is the same for all nodes,
// unless they disagree about which slices there are.
func (l *Layout) Whole() *Layout { return l.whole }

// Unique reports whether all devices of the pool have different names, wherever they are.
func (l *Layout) Unique() bool { return l.whole != nil && l.whole.repeated == "" }

// drawingKey is where a layout keeps which devices draw from each counter set.
type drawingKey struct{}

// Drawing returns the positions of the devices that draw from a counter set, by its index
// in Counters.Sets. The list must not be changed.
func (l *Layout) Drawing(set int) []int {
	return Cached(&l.Derived, drawingKey{}, func() [][]int {
		bySet := make([][]int, len(l.Counters.Sets))
		for position := range l.Partitions.All() {
			for _, draw := range l.Counters.Draws(position) {
				bySet[draw.Set] = append(bySet[draw.Set], position)
			}
		}
		return bySet
	})[set]
}

// newLayout lists the devices of some slices.
func newLayout(pool *Pool, targeting []*Slice) *Layout {
	l := new(Layout)
	l.parts = l.sole[:0]
	total := 0
	for _, slice := range targeting {
		if !slice.holdsCounters(pool.opts) {
			l.parts = append(l.parts, part{slice, total})
			total += len(slice.Spec.Devices)
		}
	}
	var rules *deviceRules
	if len(pool.rules) > 0 {
		rules = newDeviceRules(pool.rules)
	}
	l.Devices = make([]Device, 0, total)
	for _, part := range l.parts {
		for i := range part.slice.Spec.Devices {
			l.Devices = append(l.Devices, pool.device(part.slice, i, rules))
			if part.slice.Spec.Devices[i].BindingConditions != nil {
				l.BindingConditions = true
			}
		}
	}
	l.classify()
	if len(l.Devices) > 0 && len(l.Devices) == len(l.Devices[0].Slice.Spec.Devices) {
		l.Content = l.Devices[0].Slice.Content
	} else {
		l.Content = new(Content)
	}
	return l
}

// classify fills the sets of devices with something special.
func (l *Layout) classify() {
	sets := [...]*bitset.Set{&l.Tainted, &l.Partitions, &l.Conditional, &l.Skipping, &l.OfNode, &l.Shareable, &l.all}
	memory := make(bitset.Arena, len(sets)*bitset.Words(len(l.Devices)))
	for _, set := range sets {
		*set = memory.New(len(l.Devices))
	}
	for i := range l.Devices {
		device := &l.Devices[i]
		l.all.Add(i)
		if len(device.Taints) > 0 {
			l.Tainted.Add(i)
		}
		if len(device.ConsumesCounters) > 0 {
			l.Partitions.Add(i)
		}
		if len(device.BindingConditions) > 0 {
			l.Conditional.Add(i)
		}
		if ptr.Deref(device.AllowMultipleAllocations, false) {
			l.Shareable.Add(i)
		}
		if len(device.Slice.Spec.SkipNodeOperations) > 0 {
			l.Skipping.Add(i)
		}
		if len(device.NodeAllocatableResources) > 0 {
			l.OfNode.Add(i)
		}
	}
}

// reachable returns the devices that a node can use. Without a node, these are all.
func (l *Layout) reachable(node *v1.Node) bitset.Set {
	if node == nil || !l.selectsPerDevice() {
		return l.all
	}
	set := l.all.Clone()
	for _, part := range l.parts {
		for i, reach := range part.slice.deviceReach {
			if !reach.matches(node) {
				set.Remove(part.first + i)
			}
		}
	}
	return set
}

func (l *Layout) selectsPerDevice() bool {
	return slices.ContainsFunc(l.parts, func(p part) bool { return len(p.slice.deviceReach) > 0 })
}

// layout returns the layout of the slices that target a node, when others of the same
// generation do not. Its err is what the API server cannot check, because it sees one slice
// at a time.
func (p *Pool) layout(targeting, others []*Slice) *Layout {
	if p.uniform {
		return p.newLayout(targeting, nil) // Its only view is kept.
	}
	key := p.layoutKeyOf(targeting)
	if known, found := p.views.Get(key); found {
		return known.(*Layout)
	}
	return p.views.Put(key, p.newLayout(targeting, others)).(*Layout)
}

// layoutKey is where a pool keeps the layout of some of its slices.
type layoutKey string

func (p *Pool) layoutKeyOf(targeting []*Slice) layoutKey {
	numbers, key := p.reachIndex().numbers, make([]byte, (len(p.slices)+7)/8)
	for _, slice := range targeting {
		number := numbers[slice]
		key[number/8] |= 1 << (number % 8)
	}
	return layoutKey(key)
}

func (p *Pool) newLayout(targeting, others []*Slice) *Layout {
	l := newLayout(p, targeting)
	for _, group := range [][]*Slice{targeting, others} {
		for _, slice := range group {
			if slice.broken != nil && !p.ignores(slice) {
				l.err = slice.broken
				return l
			}
		}
	}
	l.whole = l
	if len(others) == 0 {
		l.ordered = p.inOrder(l.parts)
	} else {
		l.whole = p.layoutOfAll(append(targeting[:len(targeting):len(targeting)], others...))
	}
	if l.index(); l.repeated != "" {
		l.err = fmt.Errorf("device name %s is not unique", l.repeated)
	}
	if !p.opts.PartitionableDevices {
		return l
	}
	if l.whole == l {
		l.former = p.before(newest(targeting))
		l.Counters, l.countersErr = newCounters(targeting, l.Devices)
	} else if l.countersErr = l.whole.countersErr; l.countersErr == nil {
		l.Counters = l.whole.Counters.of(l)
	}
	if l.err == nil {
		l.err = l.countersErr
	}
	return l
}

// before returns the slices of generations before one, older ones first.
func (p *Pool) before(generation int64) (former []*Slice) {
	for _, slice := range p.slices {
		if slice.generation() < generation {
			former = append(former, slice)
		}
	}
	slices.SortStableFunc(former, func(a, b *Slice) int { return cmp.Compare(a.generation(), b.generation()) })
	return former
}

// formerKey is where a layout keeps the devices of former slices.
type formerKey struct{}

// Former returns a device as the newest of the pool's older generations has it of which there still is
// a slice, nil if none has it.
func (l *Layout) Former(device string) *resourceapi.Device {
	if l.whole == nil || len(l.whole.former) == 0 {
		return nil
	}
	return Cached(&l.whole.Derived, formerKey{}, func() map[string]*resourceapi.Device {
		devices := make(map[string]*resourceapi.Device)
		for _, slice := range l.whole.former {
			for i := range slice.Spec.Devices {
				devices[slice.Spec.Devices[i].Name] = &slice.Spec.Devices[i]
			}
		}
		return devices
	})[device]
}

// layoutOfAll returns the layout of all slices of a generation.
func (p *Pool) layoutOfAll(all []*Slice) *Layout {
	sortByName(all)
	return p.layout(all, nil)
}

// inOrder returns parts in the order of the pool.
func (p *Pool) inOrder(parts []part) []part {
	if p.sorted || p.uniform {
		return parts
	}
	numbers := p.reachIndex().numbers
	return slices.SortedFunc(slices.Values(parts), func(a, b part) int {
		return cmp.Compare(numbers[a.slice], numbers[b.slice])
	})
}

// index prepares Position.
func (l *Layout) index() {
	if l.whole != l && l.whole.repeated == "" && len(l.parts) <= fewParts {
		return
	}
	if l.few = len(l.Devices) <= fewDevices; l.few {
		for i := range l.Devices {
			name := l.Devices[i].Name
			if first, _ := l.ownPosition(name); first != i && l.repeated == "" {
				l.repeated = name
			}
		}
		return
	}
	l.positions = make(map[string]int, len(l.Devices))
	for i := range l.Devices {
		name := l.Devices[i].Name
		if _, found := l.positions[name]; !found {
			l.positions[name] = i
		} else if l.repeated == "" {
			l.repeated = name
		}
	}
}
