package inventory

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
)

// State says whether devices may be allocated from a pool.
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
	// Taints holds the taints that the driver published, followed by those of matching
	// DeviceTaintRules in the order of their names.
	Taints []resourceapi.DeviceTaint
}

// NodePool is a node's view of a pool. It is immutable, and all nodes with the same view share it.
// Only a Complete one has devices and counters.
//
// Nodes may reach different devices of a large pool. All else that they see is in a Layout, which
// all nodes with the same slices share: a pool of 10,000 devices for 5,000 nodes must not become 50
// million entries.
type NodePool struct {
	ID PoolID
	// Key replaces ID in frequent lookups of pools.
	Key   PoolKey
	State State
	// Reason says why the pool is not complete.
	Reason string
	// Off lists disabled feature gates that ignored slices of the pool need. The pool is incomplete
	// without these slices.
	Off []string
	// Reachable is the set of devices that the node can use: all devices, unless the slice selects
	// nodes per device.
	Reachable bitset.Set
	*Layout
}

// MayTakeOfNode reports whether devices of the pool can be allocated that take resources of their node.
func (p *NodePool) MayTakeOfNode() bool { return p.State == Complete && !p.OfNode.Empty() }

// Device returns a device of the pool by name, on any node, nil if there is none.
func (p *NodePool) Device(name string) *Device {
	if i, found := p.Position(name); found {
		return &p.Devices[i]
	}
	if i, found := p.elsewhere(name); found {
		return &p.whole.Devices[i]
	}
	return nil
}

// Consumptions returns the published counter consumption of a device of the pool, by name, on any
// node. A device that is not published consumes nothing.
func (p *NodePool) Consumptions(name string) []resourceapi.DeviceCounterConsumption {
	if published := p.Device(name); published != nil {
		return published.ConsumesCounters
	}
	return nil
}

// Draws returns the counter consumption of a device of the pool, by name, on any node. A device
// that is not published consumes nothing.
func (p *NodePool) Draws(name string) []Draw {
	if i, found := p.Position(name); found {
		return p.Counters.Draws(i)
	}
	if i, found := p.elsewhere(name); found {
		return p.whole.Counters.Draws(i)
	}
	return nil
}

// Elsewhere yields the pool's devices in slices for other nodes. They matter because they consume
// from the same counters.
func (p *NodePool) Elsewhere() iter.Seq[*Device] {
	return func(yield func(*Device) bool) {
		if p.whole == nil || p.whole == p.Layout {
			return
		}
		for _, part := range p.whole.ordered {
			if p.partOf(part.slice) >= 0 {
				continue
			}
			for i := range part.slice.Spec.Devices {
				if !yield(&p.whole.Devices[part.first+i]) {
					return
				}
			}
		}
	}
}

// elsewhere returns the position, in the whole pool, of a device that is not in Devices.
func (p *NodePool) elsewhere(name string) (int, bool) {
	if p.whole == nil || p.whole == p.Layout {
		return 0, false
	}
	return p.whole.Position(name)
}

// newNodePool makes the view of a node that the targeting slices are for.
func newNodePool(pool *Pool, targeting, others []*Slice, node *v1.Node) *NodePool {
	layout := pool.layout(targeting, others)
	if layout.err != nil {
		return pool.unusable(Invalid, layout.err.Error())
	}
	return &NodePool{ID: pool.ID, Key: pool.key, Layout: layout, Reachable: layout.reachable(node)}
}

// holdsCounters reports whether the slice has counters and nothing else.
func (s *Slice) holdsCounters(opts Options) bool {
	return opts.PartitionableDevices && len(s.Spec.SharedCounters) > 0 && len(s.Spec.Devices) == 0
}

// device combines a published device with its taints.
func (p *Pool) device(slice *Slice, index int, rules *deviceRules) Device {
	published := &slice.Spec.Devices[index]
	if len(p.rules) == 0 {
		return Device{Device: published, Slice: slice, Taints: published.Taints}
	}
	return Device{Device: published, Slice: slice, Taints: withRules(published, rules)}
}
