package objective

import (
	"cmp"
	"fmt"
)

// A Value is the cost of a plan: smaller is better. Values of plans on different nodes are comparable if
// their alternatives are equally good.
//
// Fields are compared in their order. Devices that failed to get ready for the pod before come last. Ready
// devices come before devices that must be attached first, because the pod waits for those, and each may be
// attached for this pod alone. Next is the cost of the node. Next are the pod's own devices: a pod with two GPUs, or with a GPU and a NIC,
// pays for every transfer between them as long as it runs, whereas the next choice can make up for a bad
// rest. Next is the loss for likely future requests, in devices; broken groups count little in it. If all
// these are equal, a group that is broken already is used first, regardless of the strategy.
type Value struct {
	// Failed counts earlier failures of the plan's devices to get ready for the pod, see search.NodeView.
	Failed int
	// NotReady counts the plan's results on devices with binding conditions (KEP-5007), which must be made
	// ready first. It includes those with admin access, because the pod waits for them as well.
	NotReady int
	// Node is the cost of keeping the node for the pod. It is the same for all plans on a node, so a search leaves
	// it 0, and callers that compare nodes may set it.
	Node float64
	// Apart is the number of pairs of the pod's devices that are not close: 16 bits for each attribute, the
	// most important attribute highest.
	Apart uint64
	// Cost is the loss of worth of the free devices, in devices, see Objective.Cost.
	Cost float64
	// Broken is the decrease of the groups of close free devices, see Groups; the most important attribute
	// has the most weight.
	Broken float64
}

// Compare returns a negative number if v is better than w.
func (v Value) Compare(w Value) int {
	return cmp.Or(cmp.Compare(v.Failed, w.Failed), cmp.Compare(v.NotReady, w.NotReady),
		cmp.Compare(v.Node, w.Node), cmp.Compare(v.Apart, w.Apart), cmp.Compare(v.Cost, w.Cost), cmp.Compare(v.Broken, w.Broken))
}

func (v Value) String() string {
	switch {
	case v.Failed > 0:
		return fmt.Sprintf("failed %d, %s", v.Failed, Value{NotReady: v.NotReady, Node: v.Node, Apart: v.Apart, Cost: v.Cost, Broken: v.Broken})
	case v.Node != 0:
		return fmt.Sprintf("node %.6g, %s", v.Node, Value{NotReady: v.NotReady, Apart: v.Apart, Cost: v.Cost, Broken: v.Broken})
	}
	return fmt.Sprintf("not ready %d, apart %x, cost %.6f, broken %.6g", v.NotReady, v.Apart, v.Cost, v.Broken)
}

// used returns the used fraction of a node's devices, from 0 to 1, plus a little if the use is concentrated on
// few devices.
func used(state *State) float64 {
	const together = 1.0 / 1024
	size, free, squares := 0.0, 0.0, 0.0
	for i := range state.Devices {
		d := &state.Devices[i]
		size, free = size+d.Size, free+d.Free
		if d.Size > 0 {
			part := (d.Size - d.Free) / d.Size
			squares += d.Size * part * part
		}
	}
	if size == 0 {
		return 0
	}
	return (size-free)/size + together*squares/size
}
