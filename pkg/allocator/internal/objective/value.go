package objective

import (
	"cmp"
	"fmt"
)

// Value is what a plan costs: smaller is better. Values of plans on different nodes can be compared
// if their alternatives are equally good.
//
// Devices that failed to get ready for the pod come last, and those that are ready first: a pod waits for
// those that have to be attached before, as long as that takes, and each may be attached for this pod
// alone. Then come the pod's own devices: whoever asks for two GPUs, or a GPU and a NIC, pays for every
// transfer between them as long as the pod runs, while what is left for others can be made good by
// the next choice. Then comes what the plan takes from the requests that are likely to come, which
// is in devices, and in which groups that are broken up count for little. Where that is the same, the
// group that is broken already is taken from first, whatever the strategy.
type Value struct {
	// Failed counts failures of the plan's devices to get ready for the pod before, see
	// search.NodeView.
	Failed int
	// NotReady counts the plan's results on devices with binding conditions (KEP-5007), which
	// somebody has to make ready first. Those with admin access count, because the pod waits for them as well.
	NotReady int
	// Apart is how many pairs of the pod's devices are not close, 16 bits for each attribute, the
	// most important one highest.
	Apart uint64
	// Cost is how much less worth is what is free, in devices, see Objective.Cost.
	Cost float64
	// Broken is by how much groups of close devices that are free become smaller, see Groups; likewise
	// with the most important attribute first.
	Broken float64
}

// Compare is negative if v is better than w.
func (v Value) Compare(w Value) int {
	return cmp.Or(cmp.Compare(v.Failed, w.Failed), cmp.Compare(v.NotReady, w.NotReady),
		cmp.Compare(v.Apart, w.Apart), cmp.Compare(v.Cost, w.Cost), cmp.Compare(v.Broken, w.Broken))
}

func (v Value) String() string {
	if v.Failed > 0 {
		return fmt.Sprintf("failed %d, %s", v.Failed, Value{NotReady: v.NotReady, Apart: v.Apart, Cost: v.Cost, Broken: v.Broken})
	}
	return fmt.Sprintf("not ready %d, apart %x, cost %.6f, broken %.6g", v.NotReady, v.Apart, v.Cost, v.Broken)
}

// packed is how much of a node's devices is used, from 0 to 1, and a little more if that is
// together on few of them.
func packed(state *State) float64 {
	const together = 1.0 / 1024
	size, free, squares := 0.0, 0.0, 0.0
	for i := range state.Devices {
		d := &state.Devices[i]
		size, free = size+d.Size, free+d.Free
		if d.Size > 0 {
			used := (d.Size - d.Free) / d.Size
			squares += d.Size * used * used
		}
	}
	if size == 0 {
		return 0
	}
	return (size-free)/size + together*squares/size
}
