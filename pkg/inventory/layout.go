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

// Layout holds all that is the same for the nodes that see the same slices of a pool: everything
// but the set of devices that a node reaches. It is immutable and belongs to one version of the
// pool.
type Layout struct {
	// Devices holds all devices of the slices, in the order in which they are tried: by name of the
	// slice, then as the slice lists them. A device is identified by its position here.
	Devices []Device
	// Tainted is the set of devices with a taint.
	Tainted bitset.Set
	// Partitions is the set of devices that consume counters (KEP-4815).
	Partitions bitset.Set
	// Conditional is the set of devices with binding conditions (KEP-5007).
	Conditional bitset.Set
	// Skipping is the set of devices for which the kubelet must skip operations.
	Skipping bitset.Set
	// OfNode is the set of devices that stand for, or need, resources of the node, for example CPU
	// and memory (KEP-5517).
	OfNode bitset.Set
	// Shareable is the set of devices that can be allocated several times (KEP-5075).
	Shareable bitset.Set
	// all is the set of all devices.
	all bitset.Set
	// Counters holds the pool's counters (KEP-4815); nil if they are invalid or the feature is off.
	Counters *Counters
	// BindingConditions is true if any device has binding conditions. Such pools
	// are tried after all others (KEP-5007).
	BindingConditions bool
	// Content caches what was derived from the content of Devices. It is the slice's own Content if
	// all Devices are of one slice.
	Content *Content
	// Derived caches what was derived from anything else in the pool.
	Derived Cache

	// parts holds the slices with Devices. Most layouts have one, stored in sole.
	parts []part
	sole  [1]part
	// positions maps the names of devices to positions. It is nil if the whole pool's map is used,
	// or if few is set: then Devices is searched.
	positions map[string]int
	few       bool
	// whole is the layout of all slices of the generation, for all nodes; nil if nothing can be
	// allocated.
	whole *Layout
	// ordered holds the parts in the order of the pool, if this layout has all slices of its
	// generation. The order matters if incompatible devices are in use (CompatibilityGroups.Force).
	ordered []part
	// former holds the remaining slices of older generations, older ones first, if this layout has
	// all slices of its generation.
	former []*Slice
	// err says why nothing can be allocated, countersErr why Counters is not set.
	err, countersErr error
	// repeated is the name of a device that occurs twice, "" if there is none.
	repeated string
}

// part is a slice and the position of its first device.
type part struct {
	slice *Slice
	first int
}

// fewParts is the maximum number of slices that are searched without an index.
const fewParts = 4

// fewDevices is the maximum number of devices that are searched for a name: making a map of them
// takes longer than all later searches.
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

// ownPosition is Position for layouts that do not rely on the whole pool's.
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

// partOf returns the index of a slice in parts, -1 if it is not there.
func (l *Layout) partOf(slice *Slice) int {
	return slices.IndexFunc(l.parts, func(p part) bool { return p.slice == slice })
}

// firstOf returns the position of the first device in the slice of the device at position.
func (l *Layout) firstOf(position int) int {
	i, found := slices.BinarySearchFunc(l.parts, position, func(p part, position int) int { return p.first - position })
	if !found {
		i--
	}
	return l.parts[i].first
}

// Whole identifies the layout whose devices consume from the same counters. It is the same for all
// nodes, unless they disagree about which slices exist.
func (l *Layout) Whole() *Layout { return l.whole }

// Unique reports whether all devices of the pool, on all nodes, have different names.
func (l *Layout) Unique() bool { return l.whole != nil && l.whole.repeated == "" }

// drawingKey is the cache key of the devices that consume from each counter set.
type drawingKey struct{}

// Drawing returns the positions of the devices that consume from a counter set, given by its index
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

// classify fills the sets of devices with special properties.
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

// reachable returns the devices that a node can use. Without a node, it returns all.
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

// layout returns the layout of the slices that target a node; others are the slices of the same
// generation that do not. Its err reports violations that the API server cannot check, because it
// sees one slice at a time.
func (p *Pool) layout(targeting, others []*Slice) *Layout {
	if p.uniform {
		return p.newLayout(targeting, nil) // The only view of such a pool is cached.
	}
	key := p.layoutKeyOf(targeting)
	if known, found := p.views.Get(key); found {
		return known.(*Layout)
	}
	return p.views.Put(key, p.newLayout(targeting, others)).(*Layout)
}

// layoutKey is the cache key of the layout of some slices of a pool.
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

// before returns the slices of generations before the given one, older ones first.
func (p *Pool) before(generation int64) (former []*Slice) {
	for _, slice := range p.slices {
		if slice.generation() < generation {
			former = append(former, slice)
		}
	}
	slices.SortStableFunc(former, func(a, b *Slice) int { return cmp.Compare(a.generation(), b.generation()) })
	return former
}

// formerKey is the cache key of the devices of former slices.
type formerKey struct{}

// Former returns a device from the newest older generation of the pool that has it in a remaining
// slice, nil if there is none.
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

// inOrder returns the parts in the order of the pool.
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
