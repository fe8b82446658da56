package nodes

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

const (
	usualPrice = 1
	// maxPrice and opening leave enough digits for differences between prices: an unused node costs more than any node in
	// use.
	maxPrice = 1e6
	opening  = 1e9
)

// Cost returns the expected cost of keeping a node for one more pod. The price of the node is the number in a label; without a
// label, or with anything but a number above 0, it is 1. An unused node could be removed instead. A node that has been in
// use for long, since the given second of Unix time, is likely to be kept anyway: it costs an eighth for each
// factor of eight in time. So nodes differ that differ much, and among the others the devices decide.
func Cost(node *v1.Node, label string, since int64, now time.Time) float64 {
	price, err := strconv.ParseFloat(node.Labels[label], 64)
	if err != nil || math.IsNaN(price) || price <= 0 {
		price = usualPrice
	}
	if price = min(price, maxPrice); since == 0 {
		return price + opening
	}
	age := uint64(max(0, now.Unix()-since))
	return price / float64(uint64(1)<<(bits.Len64(age)/3*3))
}

// Left returns the part of the node's CPU or memory that is left after a pod, of the scarcer one: 0 if nothing is left.
func Left(node *v1.Node, room, pod noderesources.Resources) float64 {
	part := func(left int64, all float64) float64 {
		if all <= 0 {
			return 0
		}
		return max(0, float64(left)/all)
	}
	return min(part(room.MilliCPU-pod.MilliCPU, float64(quantity.MilliValue(*node.Status.Allocatable.Cpu()))),
		part(room.Memory-pod.Memory, float64(quantity.Value(*node.Status.Allocatable.Memory()))))
}
