package inventory

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
)

// State tells whether devices may be allocated from a pool.
type State int

const (
	// Complete pools can be allocated from.
	Complete State = iota
	// Incomplete pools are being updated by their driver.
	Incomplete
	// Invalid pools contradict themselves, for example by naming a device twice.
	Invalid
)

func (s State) String() string {
	return [...]string{"complete", "incomplete", "invalid"}[s]
}

// Device is a device in a pool. The embedded API object is shared and read-only.
type Device struct {
	*resourceapi.Device
	Slice *Slice
	// Taints are those that the driver published followed by those of matching
	// DeviceTaintRules, by name of the rule.
	Taints []resourceapi.DeviceTaint
}

// NodePool is what a node sees of a pool. It is immutable and shared by all nodes
// which see the same. Only a Complete one has devices and counters.
type NodePool struct {
	ID PoolID
	// Key stands for ID where pools are looked up often.
	Key   PoolKey
	State State
	// Reason says why the pool is not complete.
	Reason string
	// Off are the feature gates that are off and without which slices of the pool are
	// ignored, so that it is not complete.
	Off []string
	// Devices are all devices of slices for this node, in the order in which
	// they are tried: by name of the slice, then as the slice lists them.
	// A device is identified by its position here.
	Devices []Device
	// Reachable are the devices that the node can use: all of them, unless the
	// slice selects nodes per device.
	Reachable bitset.Set
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
	// Elsewhere are the pool's devices in slices for other nodes. They matter
	// because they draw from the same counters.
	Elsewhere []Device
	// Shareable are the devices that can be allocated several times (KEP-5075).
	Shareable bitset.Set
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

	positions map[string]int
}

// Position returns the index of the named device in Devices.
func (p *NodePool) Position(device string) (int, bool) {
	i, found := p.positions[device]
	return i, found
}

// Device returns a device of the pool by name, wherever it is; nil if there is none.
func (p *NodePool) Device(name string) *Device {
	if i, found := p.positions[name]; found {
		return &p.Devices[i]
	}
	if i := p.elsewhere(name); i >= 0 {
		return &p.Elsewhere[i]
	}
	return nil
}

// Consumptions returns what the slice says that a device of the pool consumes of counters,
// by name, wherever it is. A device that is not published consumes nothing.
func (p *NodePool) Consumptions(name string) []resourceapi.DeviceCounterConsumption {
	if published := p.Device(name); published != nil {
		return published.ConsumesCounters
	}
	return nil
}

// Draws returns what a device of the pool consumes of counters, by name, wherever it is.
// A device that is not published draws nothing.
func (p *NodePool) Draws(name string) []Draw {
	if i, found := p.positions[name]; found {
		return p.Counters.Draws(i)
	}
	if i := p.elsewhere(name); i >= 0 {
		return p.Counters.DrawsElsewhere(i)
	}
	return nil
}

func (p *NodePool) elsewhere(name string) int {
	return slices.IndexFunc(p.Elsewhere, func(d Device) bool { return d.Name == name })
}

func newNodePool(pool *Pool, targeting, others []*Slice, node *v1.Node) *NodePool {
	view := &NodePool{ID: pool.ID, Key: pool.key}
	view.addDevices(pool, targeting, node)
	for _, slice := range others {
		if len(slice.Spec.SharedCounters) > 0 && pool.opts.PartitionableDevices {
			continue
		}
		for i := range slice.Spec.Devices {
			view.Elsewhere = append(view.Elsewhere, pool.device(slice, i))
		}
	}
	if err := view.validate(pool, targeting, others); err != nil {
		return pool.unusable(Invalid, err.Error())
	}
	return view
}

// addDevices lists the devices of the slices that target the node. Slices with
// shared counters hold no devices (they are mutually exclusive in the API).
func (p *NodePool) addDevices(pool *Pool, targeting []*Slice, node *v1.Node) {
	for _, slice := range targeting {
		if slice.holdsCounters(pool.opts) {
			continue
		}
		for i := range slice.Spec.Devices {
			p.Devices = append(p.Devices, pool.device(slice, i))
			if slice.Spec.Devices[i].BindingConditions != nil {
				p.BindingConditions = true
			}
		}
	}
	p.classify(node)
	if len(p.Devices) > 0 && len(p.Devices) == len(p.Devices[0].Slice.Spec.Devices) {
		p.Content = p.Devices[0].Slice.Content
	} else {
		p.Content = new(Content)
	}
}

// classify fills the sets of devices with something special.
func (p *NodePool) classify(node *v1.Node) {
	p.Reachable = bitset.Full(len(p.Devices))
	for _, set := range []*bitset.Set{&p.Tainted, &p.Partitions, &p.Conditional, &p.Skipping, &p.OfNode, &p.Shareable} {
		*set = bitset.New(len(p.Devices))
	}
	first := 0 // position of the first device of the current device's slice
	for i, device := range p.Devices {
		if i > 0 && p.Devices[i-1].Slice != device.Slice {
			first = i
		}
		if reach := device.Slice.deviceReach; node != nil && len(reach) > 0 && !reach[i-first].matches(node) {
			p.Reachable.Remove(i)
		}
		if len(device.Taints) > 0 {
			p.Tainted.Add(i)
		}
		if len(device.ConsumesCounters) > 0 {
			p.Partitions.Add(i)
		}
		if len(device.BindingConditions) > 0 {
			p.Conditional.Add(i)
		}
		if ptr.Deref(device.AllowMultipleAllocations, false) {
			p.Shareable.Add(i)
		}
		if len(device.Slice.Spec.SkipNodeOperations) > 0 {
			p.Skipping.Add(i)
		}
		if len(device.NodeAllocatableResources) > 0 {
			p.OfNode.Add(i)
		}
	}
}

func (s *Slice) holdsCounters(opts Options) bool {
	return opts.PartitionableDevices && len(s.Spec.SharedCounters) > 0
}

// device joins a published device with its taints.
func (p *Pool) device(slice *Slice, index int) Device {
	published := &slice.Spec.Devices[index]
	return Device{Device: published, Slice: slice, Taints: withRules(published, p.rules)}
}

// validate checks what the API server cannot, because it sees one slice at a time.
func (p *NodePool) validate(pool *Pool, targeting, others []*Slice) error {
	for _, group := range [][]*Slice{targeting, others} {
		for _, slice := range group {
			if slice.broken != nil && !pool.ignores(slice) {
				return slice.broken
			}
		}
	}
	p.positions = make(map[string]int, len(p.Devices))
	for i, device := range p.Devices {
		if _, found := p.positions[device.Name]; found {
			return fmt.Errorf("device name %s is not unique", device.Name)
		}
		p.positions[device.Name] = i
	}
	if !pool.opts.PartitionableDevices {
		return nil
	}
	counters, err := newCounters(targeting, others)
	if err != nil {
		return err
	}
	p.Counters = counters
	return counters.addDraws(p.Devices, p.Elsewhere)
}
