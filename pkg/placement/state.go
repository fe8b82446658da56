package placement

// AnyDevice is the kind of requests that every device satisfies. It has index 0 in every demand.
const AnyDevice = "*"

const (
	maxKinds  = 64 // bits of Device.Kinds
	maxShapes = 64 // bits of the sets of shapes in tables
)

// A State describes the free part of a node: of the node itself, and of all devices that it reaches.
type State struct {
	// MilliCPU is the CPU that pods can still request, in thousandths of a core. A negative number means
	// unknown, and therefore unlimited.
	MilliCPU int64
	// Memory is the memory that pods can still request, in MiB. A negative number means unknown, and
	// therefore unlimited.
	Memory int64
	// Devices are in the order of their drivers. They include those that are held.
	Devices []Device
	// Holders is, by unit (see Device), the number of holders of parts of it. The fewer there are, the sooner
	// the unit may be wholly free. It does not matter for units of one device, and may be short: the rest has
	// no known holders.
	Holders []int32
	// Takes is, by place (see Device), the set of parts of the unit that the place consists of, as bits.
	// Takes[0] is not used.
	Takes []uint64
}

// A Device is a device, free or not. Sizes are in whole devices: the largest device of a sort has size 1, a
// partition the fraction of the counters that it consumes.
type Device struct {
	// Kinds is the set of kinds of requests that the device satisfies: bit i stands for Demand.Kinds[i].
	Kinds uint64
	// Unit identifies the physical device: a GPU and all its partitions have the same unit, a plain device
	// has its own. The units of a state are numbered from 0.
	Unit int32
	// Place is equal for devices that take the same part of a unit: only one of them can be allocated. 0
	// means unknown. The places of a state are numbered from 1.
	Place int32
	// Size is the worth of the free device, more than 0 and at most 1.
	Size float64
	// Free is the part of Size that can be allocated now. It is Size or 0 for a device with at most one
	// holder, and 0 also if counters do not suffice. For a device that allows multiple allocations it is the
	// rest of the scarcest capacity.
	Free float64
}

// Hold adds or removes a holder of a part of a unit.
func (s *State) Hold(unit int32, more bool) {
	if more {
		s.Holders[unit]++
	} else {
		s.Holders[unit]--
	}
}

// A Demand describes the likely future requests. It is immutable: another demand has a higher version.
type Demand struct {
	Version uint64
	// Kinds are the keys of kinds of requests, as added to a histogram. There are at most 64.
	Kinds []string
	// Shapes are the likely pods, at most 64.
	Shapes []Shape
	// Beside is the CPU that pods without devices request on nodes with devices, for each core requested
	// there by pods with devices. The needs of devices do not influence the placement of those pods.
	Beside float64

	memo tables
}

// A Shape is a likely pod, with a weight. The weights of a demand add up to 1.
type Shape struct {
	Weight   float64
	MilliCPU int64 // thousandths of a core
	Memory   int64 // MiB
	Requests []Request
}

// A Request asks for Count devices of a kind, and takes Amount of each.
type Request struct {
	// Kind is an index into Demand.Kinds.
	Kind  int
	Count int
	// Amount is in whole devices. 0 means all of a device, whatever its size.
	Amount float64
}

// Published returns the demand without history: every published device and partition may be requested, and
// each counts by its size.
func Published() *Demand {
	return &Demand{
		Version: 1,
		Kinds:   []string{AnyDevice},
		Shapes:  []Shape{{Weight: 1, Requests: []Request{{Kind: 0, Count: 1}}}},
	}
}

// total returns the number of whole devices that a pod of the shape takes if all devices have size 1.
func (s *Shape) total() float64 {
	total := 0.0
	for _, r := range s.Requests {
		amount := r.Amount
		if amount == 0 {
			amount = 1
		}
		total += float64(r.Count) * amount
	}
	return total
}

// kinds returns the set of kinds that a pod of the shape requests.
func (s *Shape) kinds() uint64 {
	kinds := uint64(0)
	for _, r := range s.Requests {
		kinds |= 1 << r.Kind
	}
	return kinds
}
