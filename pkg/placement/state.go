package placement

// AnyDevice is the kind of request that every device satisfies. It has index 0 in every demand.
const AnyDevice = "*"

const (
	maxKinds  = 64 // bits of Device.Kinds
	maxShapes = 64 // bits of the sets of shapes in tables
)

// State is what is free on a node: of the node itself, and of all devices that it reaches.
type State struct {
	// MilliCPU is CPU that pods can still request, in thousandths of a core. Negative: not known, and therefore no limit.
	MilliCPU int64
	// Memory is memory that pods can still request, in MiB. Negative: not known, and therefore no limit.
	Memory int64
	// Devices are in the order of their drivers. Those that are held are among them.
	Devices []Device
	// Holders is by unit, see Device: how many hold a part of it. The fewer there are, the sooner it may be wholly free. It says
	// nothing of units that consist of one device, and may be short: none is known then.
	Holders []int32
	// Takes is by place, see Device: which parts of its unit it consists of, as bits. Takes[0] is not used.
	Takes []uint64
}

// Device is a device, whether it is free or not. Sizes are in whole devices: the largest device of a sort has size 1, a partition
// the share of the counters that it consumes.
type Device struct {
	// Kinds is the set of kinds of requests that the device satisfies: bit i stands for Demand.Kinds[i].
	Kinds uint64
	// Unit tells what the device was cut out of: a GPU and all its partitions have the same unit, a plain device has one of its own.
	// The units of a state are numbered from 0.
	Unit int32
	// Place is the same number for devices that take the same part of a unit: only one of them can be had, whatever it is called. 0
	// is not known. The places of a state are numbered from 1.
	Place int32
	// Size is what the device is worth when it is free, more than 0 and at most 1.
	Size float64
	// Free is what can be had of Size now. It is Size or 0 for a device that has at most one holder, 0 also if counters do not
	// suffice, and what is left of the scarcest capacity of a device that allows multiple allocations.
	Free float64
}

// Hold says that somebody has a part of a unit more, or that one less has.
func (s *State) Hold(unit int32, more bool) {
	if more {
		s.Holders[unit]++
	} else {
		s.Holders[unit]--
	}
}

// Demand is what is likely to be asked for. It does not change: another demand has a higher version.
type Demand struct {
	Version uint64
	// Kinds are kinds of requests, by the keys that they were added to a histogram with. There are at most 64.
	Kinds []string
	// Shapes are at most 64.
	Shapes []Shape
	// Beside is how much CPU pods without devices request on nodes with devices, for each core that pods with devices do there.
	// Nobody places those by what devices need.
	Beside float64

	memo tables
}

// Shape is a pod that is likely to come, with a weight. The weights of a demand add up to 1.
type Shape struct {
	Weight   float64
	MilliCPU int64 // thousandths of a core
	Memory   int64 // MiB
	Requests []Request
}

// Request asks for Count devices of a kind, of each of which it takes Amount.
type Request struct {
	// Kind is an index into Demand.Kinds.
	Kind  int
	Count int
	// Amount is in whole devices. 0 stands for all of a device, whatever its size.
	Amount float64
}

// Published is the demand without history: every device and every partition that is published may be asked for, each counts by its
// size.
func Published() *Demand {
	return &Demand{
		Version: 1,
		Kinds:   []string{AnyDevice},
		Shapes:  []Shape{{Weight: 1, Requests: []Request{{Kind: 0, Count: 1}}}},
	}
}

// total is what a pod of that shape takes, in whole devices, if all devices have size 1.
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

// kinds is the set of kinds that a pod of the shape asks for.
func (s *Shape) kinds() uint64 {
	kinds := uint64(0)
	for _, r := range s.Requests {
		kinds |= 1 << r.Kind
	}
	return kinds
}
