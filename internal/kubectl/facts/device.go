package facts

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// State is the state of a device. If several apply, the first in this list counts; Free means that none applies.
type State string

const (
	// Allocated devices are held by a claim exclusively.
	Allocated State = "Allocated"
	// Shared devices have shares that claims hold (KEP-5075).
	Shared State = "Shared"
	// Tainted devices have a taint with the effect NoSchedule or NoExecute (KEP-5055).
	Tainted State = "Tainted"
	// Unavailable devices cannot be allocated: their node is cordoned, their pool is incomplete, or other devices
	// have exhausted a counter (KEP-4815).
	Unavailable State = "Unavailable"
	// Free devices can be allocated.
	Free State = "Free"
	// NotKnown devices may be in use, because some claims could not be read.
	NotKnown State = "NotKnown"
)

// Device is a published device.
type Device struct {
	DeviceID `json:",inline"`
	Slice    string `json:"slice"`
	Reach    `json:",inline"`

	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacities map[resourceapi.QualifiedName]resource.Quantity           `json:"capacities,omitempty"`
	// Shareable devices can be allocated several times (KEP-5075).
	Shareable bool `json:"shareable,omitempty"`

	State State `json:"state"`
	// Cordoned is set if the device is local to a node that is cordoned (spec.unschedulable).
	Cordoned bool `json:"cordoned,omitempty"`
	// Why says why the device is Unavailable or NotKnown.
	Why    string                    `json:"why,omitempty"`
	Taints []resourceapi.DeviceTaint `json:"taints,omitempty"`

	Holders []Holder `json:"holders,omitempty"`
	// Rooms are the capacities of shareable devices, and the counters that a partition draws from.
	Rooms []Room `json:"rooms,omitempty"`
	// OfNode are the resources of its node that the device stands for, or that its users need (KEP-5517).
	OfNode map[v1.ResourceName]resourceapi.NodeAllocatableResource `json:"nodeAllocatableResources,omitempty"`
	// PartitionOf are the counter sets that the device draws from (KEP-4815).
	PartitionOf []string `json:"partitionOf,omitempty"`

	device *inventory.Device
}

// Published returns the device as its driver published it. Callers must not change it.
func (d *Device) Published() *inventory.Device { return d.device }

// HasRoom reports whether a claim could get the device or a share of it, judged by the device alone.
func (d *Device) HasRoom() bool {
	switch {
	case d.State == Free:
		return true
	case d.State != Shared || d.Cordoned || d.Tainted():
		return false
	}
	return !slices.ContainsFunc(d.Rooms, func(r Room) bool { return r.Kind == CapacityRoom && r.left.Float() <= 0 })
}

// Tainted reports whether a taint keeps claims without a toleration from the device. Taints with the effect None do
// not.
func (d *Device) Tainted() bool { return slices.ContainsFunc(d.Taints, inventory.KeepsAway) }

// Scarcest returns the room with the largest used part, nil if the device has no rooms.
func (d *Device) Scarcest() *Room {
	var scarcest *Room
	for i := range d.Rooms {
		if room := &d.Rooms[i]; scarcest == nil || room.Used() > scarcest.Used() {
			scarcest = room
		}
	}
	return scarcest
}

// Holder is a claim that has a device, or a share of it.
type Holder struct {
	Claim string    `json:"claim"`
	UID   types.UID `json:"uid"`
	// AdminAccess is set if the device stays available to other claims (KEP-5018).
	AdminAccess bool                                            `json:"adminAccess,omitempty"`
	ShareID     types.UID                                       `json:"shareID,omitempty"`
	Consumed    map[resourceapi.QualifiedName]resource.Quantity `json:"consumed,omitempty"`
	Consumers   []Consumer                                      `json:"consumers,omitempty"`
	Since       *metav1.Time                                    `json:"since,omitempty"`
	Unused      bool                                            `json:"unused,omitempty"`
}

// Kinds of Room.
const (
	// CapacityRoom is a capacity of a device that can be shared (KEP-5075).
	CapacityRoom = "capacity"
	// CounterRoom is a counter of a pool that partitions draw from (KEP-4815).
	CounterRoom = "counter"
)

// Room is an amount of a capacity or counter, with the part that is left.
type Room struct {
	Kind string `json:"kind"`
	// Set is the counter set, "" for capacities and for sums.
	Set       string            `json:"set,omitempty"`
	Name      string            `json:"name"`
	Published resource.Quantity `json:"published"`
	// Left is negative if more is used than is published.
	Left resource.Quantity `json:"left"`

	published, left quantity.Amount
}

func newRoom(kind, set, name string, published, left quantity.Amount, format resource.Format) Room {
	return Room{kind, set, name, published.Quantity(format), left.Quantity(format), published, left}
}

// Used returns the used fraction, from 0 to 1, or above 1 if the room is overdrawn.
func (r *Room) Used() float64 {
	if r.published.Float() <= 0 {
		return 0
	}
	return 1 - r.left.Float()/r.published.Float()
}

// InUse returns the used amount.
func (r *Room) InUse() resource.Quantity {
	return r.published.Minus(r.left).Quantity(r.Published.Format)
}

func (r *Room) plus(other *Room) {
	r.published, r.left = r.published.Plus(other.published), r.left.Plus(other.left)
	r.Published, r.Left = r.published.Quantity(r.Published.Format), r.left.Quantity(r.Published.Format)
}

// Devices returns all devices by driver and pool, in the order of their slices.
func (f *Facts) Devices() []Device {
	var all []Device
	for _, pool := range f.snapshot.Pools() {
		all = append(all, f.DevicesOf(pool)...)
	}
	return all
}

// eachOn calls a function for each device that a node can use.
func (f *Facts) eachOn(node *v1.Node, use func(pool *inventory.NodePool, position int)) {
	for _, pool := range f.snapshot.PoolsOn(node) {
		if pool.State == inventory.Complete {
			for i := range pool.Reachable.All() {
				use(pool, i)
			}
			continue
		}
		whole := f.snapshot.Pool(pool.ID) // The node's view of an incomplete pool has no devices.
		for i := range whole.Devices {
			if reachOf(&whole.Devices[i]).Node == node.Name {
				use(whole, i)
			}
		}
	}
}

// DevicesOf returns the devices of a pool at the given positions, or all if none are given.
func (f *Facts) DevicesOf(pool *inventory.NodePool, positions ...int) []Device {
	var list []Device
	if positions == nil {
		list = make([]Device, 0, len(pool.Devices))
		for i := range pool.Devices {
			list = append(list, f.device(pool, i))
		}
	}
	for _, i := range positions {
		list = append(list, f.device(pool, i))
	}
	return list
}

func (f *Facts) device(pool *inventory.NodePool, position int) Device {
	published, usage := &pool.Devices[position], f.usage(pool)
	use := usage.Device(published.Name)
	d := Device{
		DeviceID: DeviceID{pool.ID.Driver, pool.ID.Name, published.Name}, Slice: published.Slice.Name, Reach: reachOf(published),
		Attributes: published.Attributes, Shareable: ptr.Deref(published.AllowMultipleAllocations, false), Taints: published.Taints,
		OfNode: published.NodeAllocatableResources, device: published,
	}
	if len(published.Capacity) > 0 {
		d.Capacities = make(map[resourceapi.QualifiedName]resource.Quantity, len(published.Capacity))
		for name, capacity := range published.Capacity {
			d.Capacities[name] = capacity.Value
		}
	}
	for i := range published.ConsumesCounters {
		d.PartitionOf = append(d.PartitionOf, published.ConsumesCounters[i].CounterSet)
	}
	d.Holders = f.holders(d.DeviceID, use)
	d.Rooms = append(capacities(published, use), counters(pool, usage, position)...)
	d.Cordoned = f.isCordoned(d.Node)
	d.State, d.Why = f.stateOf(pool, usage, position, use)
	return d
}

func (f *Facts) stateOf(pool *inventory.NodePool, usage *ledger.PoolUsage, position int, use ledger.DeviceUsage) (State, string) {
	switch {
	case len(use.Holders) > 0:
		return Allocated, ""
	case len(use.Shares) > 0:
		return Shared, ""
	case slices.ContainsFunc(pool.Devices[position].Taints, inventory.KeepsAway):
		return Tainted, ""
	case f.isCordoned(reachOf(&pool.Devices[position]).Node):
		return Unavailable, "the node is cordoned (spec.unschedulable)"
	case pool.State != inventory.Complete:
		return Unavailable, fmt.Sprintf("the pool is %s: %s", pool.State, pool.Reason)
	case bitset.Has(usage.Exhausted(pool), position):
		return Unavailable, "too little is left of " + exhausted(pool, usage.Remaining(pool), position)
	case f.UsageUnknown():
		return NotKnown, "whether it is in use is not known: resourceclaims could not all be read"
	}
	return Free, ""
}

// isCordoned reports whether a node is cordoned.
func (f *Facts) isCordoned(node string) bool {
	if node == "" {
		return false
	}
	n := f.snapshot.Node(node)
	return n != nil && n.Spec.Unschedulable
}

// exhausted names the first counter that has too little left.
func exhausted(pool *inventory.NodePool, remaining *ledger.Remaining, position int) string {
	for _, draw := range pool.Counters.Draws(position) {
		for number, needed := range draw.All() {
			if !remaining.Amounts[number].Covers(needed) {
				return fmt.Sprintf("counter %s/%s", pool.Counters.SetOf(number), pool.Counters.Names[number])
			}
		}
	}
	if len(remaining.Unknown) > 0 {
		return "the pool's counters as far as is known: device " + remaining.Unknown[0] + " is in use and not published any more"
	}
	return "another counter of the pool, with more in use than there is"
}

// holders lists the claims that have a device: exclusively, by share, and with admin access.
func (f *Facts) holders(id DeviceID, use ledger.DeviceUsage) []Holder {
	var list []Holder
	for _, ref := range use.Holders {
		list = append(list, f.holder(ref))
	}
	for _, share := range use.Shares {
		h := f.holder(share.Holder)
		h.ShareID, h.Consumed = share.ID, share.Consumed
		list = append(list, h)
	}
	for _, claim := range f.admins[id] {
		h := f.holder(ledger.ClaimRef{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID})
		h.AdminAccess = true
		list = append(list, h)
	}
	return list
}

func (f *Facts) holder(ref ledger.ClaimRef) Holder {
	h := Holder{Claim: ref.String(), UID: ref.UID}
	if claim := f.byUID[ref.UID]; claim != nil {
		h.Consumers, h.Since, h.Unused = claim.Consumers, claim.Since, claim.Unused
	}
	return h
}

// capacities returns what is left of the capacities of a shareable device.
func capacities(device *inventory.Device, use ledger.DeviceUsage) []Room {
	if !ptr.Deref(device.AllowMultipleAllocations, false) {
		return nil
	}
	var rooms []Room
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		value := device.Capacity[name].Value
		published := quantity.Of(value)
		left := published
		for i := range use.Shares {
			if consumed, found := use.Shares[i].Consumed[name]; found {
				left = left.Minus(quantity.Of(consumed))
			}
		}
		if len(use.Holders) > 0 {
			left = quantity.Amount{}
		}
		rooms = append(rooms, newRoom(CapacityRoom, "", string(name), published, left, value.Format))
	}
	return rooms
}

// counters returns what is left of the counters that a device draws from.
func counters(pool *inventory.NodePool, usage *ledger.PoolUsage, position int) []Room {
	draws := pool.Counters.Draws(position)
	if len(draws) == 0 {
		return nil
	}
	var rooms []Room
	left := usage.Remaining(pool).Amounts
	for _, draw := range draws {
		for number := range draw.All() {
			rooms = append(rooms, counterRoom(pool, left, number))
		}
	}
	return rooms
}

func counterRoom(pool *inventory.NodePool, left []quantity.Amount, number int) Room {
	c := pool.Counters
	return newRoom(CounterRoom, c.SetOf(number), c.Names[number], c.Published[number], left[number], c.Formats[number])
}
