package nodescore

import (
	"math"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Schedulers that take part in the protocol would all choose the one best node, and on it the same
// device, and most of them would have to roll back. As long as another one is at work, each prefers
// others of the best nodes, where they cost nearly the same: less than what it costs to break up
// a device.
const (
	mostScattered = 8
	nearly        = 0.05 // whole devices
)

// Ranking is what nodes are brought into an order by.
type Ranking struct {
	// Values has what devices cost on nodes. Those of which that is not known count as the worst.
	Values map[string]allocator.Value
	// Scattered is set if the best nodes are to be scattered, with a seed that others do not have.
	Scattered bool
	Seed      string
}

// Score replaces scores, which are merits, by final ones. It returns the nodes, the best first.
func (r Ranking) Score(scores fwk.NodeScoreList) []Node {
	nodes := make([]Node, len(scores))
	at := make(map[string]*fwk.NodeScore, len(scores))
	for i := range scores {
		value, known := r.Values[scores[i].Name]
		if !known {
			// But for those where only what has failed for the pod is left: anything else may be better.
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
