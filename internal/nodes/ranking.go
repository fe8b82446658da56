package nodes

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Schedulers that take part in the commit protocol would all choose the one best node, and on it
// the same device, and most of them would have to roll back. While another scheduler is active,
// each prefers different ones of the best nodes if they cost nearly the same: the difference is
// less than the cost of breaking up a device.
const (
	mostScattered = 8
	nearly        = 0.05 // whole devices
)

// Ranking holds the criteria by which nodes are sorted.
type Ranking struct {
	// Values holds the cost of devices by node. Nodes without a value count as the worst.
	Values map[string]allocator.Value
	// Scattered is set if the order of the best nodes should be shuffled, with a seed that other
	// schedulers do not have.
	Scattered bool
	Seed      string
}

// Score replaces scores, which hold merits, by final ones. It returns the nodes, best first.
func (r Ranking) Score(scores fwk.NodeScoreList) []Node {
	nodes := make([]Node, len(scores))
	at := make(map[string]*fwk.NodeScore, len(scores))
	for i := range scores {
		value, known := r.Values[scores[i].Name]
		if !known {
			// Only nodes where all remaining devices have failed for the pod rank lower: any other
			// node may be better.
			value = allocator.Value{NotReady: math.MaxInt, Apart: math.MaxUint64}
		}
		nodes[i] = Node{Name: scores[i].Name, Merit: scores[i].Score, Value: value}
		at[scores[i].Name] = &scores[i]
	}
	Sort(nodes)
	if r.Scattered {
		Scatter(nodes, r.Seed, mostScattered, nearly)
	}
	for i, score := range Of(nodes) {
		at[nodes[i].Name].Score = score
	}
	return nodes
}
