package nodes

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Node is a node to score.
type Node struct {
	Name string
	// Merit is compared first: more is better. Scores are proportional to the highest merit.
	Merit int64
	// Value is the cost of the devices: among nodes of the same merit, less is better.
	Value allocator.Value
}

// compare orders nodes, the best first.
func compare(a, b Node) int {
	return cmp.Or(cmp.Compare(b.Merit, a.Merit), a.Value.Compare(b.Value))
}

// Sort sorts the best nodes to the front; equal nodes keep their order.
func Sort(nodes []Node) { slices.SortStableFunc(nodes, compare) }

// Scatter shuffles the best nodes, at most most of them, whose costs differ by no more than within
// devices. The order depends on the seed, so that schedulers with different seeds rarely get the
// same one. The nodes must be sorted.
func Scatter(nodes []Node, seed string, most int, within float64) {
	best := 0
	for best < min(most, len(nodes)) && nodes[best].Merit == nodes[0].Merit && differInCost(nodes[best].Value, nodes[0].Value) &&
		nodes[best].Value.Cost <= nodes[0].Value.Cost+within {
		best++
	}
	slices.SortStableFunc(nodes[:best], func(a, b Node) int { return cmp.Compare(mixed(seed, a.Name), mixed(seed, b.Name)) })
}

// differInCost reports whether values are equal in all that is compared before costs.
func differInCost(a, b allocator.Value) bool {
	return a.Failed == b.Failed && a.NotReady == b.NotReady && a.Node == b.Node && a.Apart == b.Apart
}

// mixed returns a number that looks random but depends only on the arguments.
func mixed(seed, name string) uint64 {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, seed)
	_, _ = io.WriteString(hash, "/")
	_, _ = io.WriteString(hash, name)
	h := hash.Sum64() // Texts that differ at the end have hashes that differ at the end.
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	return h ^ h>>33
}

// Of returns the scores of nodes, which must be sorted with the best first. The best node and its
// equals get the maximum. While points suffice, a worse node gets at least one less; the remaining
// points are distributed in proportion to the differences between the nodes.
func Of(nodes []Node) []int64 {
	scores := make([]int64, 0, len(nodes))
	for len(scores) < len(nodes) {
		rest := nodes[len(scores):]
		same := len(rest)
		if end := slices.IndexFunc(rest, func(n Node) bool { return n.Merit != rest[0].Merit }); end >= 0 {
			same = end
		}
		best, bottom := top(rest[0].Merit, nodes[0].Merit), int64(0)
		if same < len(rest) {
			// If there are more merits than points, some share a score.
			bottom = min(best, top(rest[same].Merit, nodes[0].Merit)+1)
		}
		scores = appendScores(scores, rest[:same], best, bottom)
	}
	return scores
}

// top returns the score of the best node of some merit.
func top(merit, highest int64) int64 {
	if highest <= 0 {
		return fwk.MaxScore
	}
	return merit * fwk.MaxScore / highest
}

// appendScores scores nodes of the same merit, from top to no less than bottom.
func appendScores(scores []int64, nodes []Node, top, bottom int64) []int64 {
	// ranks counts the better nodes before each node, and distances sums the differences in cost
	// between neighbours.
	ranks, distances := make([]int64, len(nodes)), make([]float64, len(nodes))
	for i := 1; i < len(nodes); i++ {
		ranks[i], distances[i] = ranks[i-1], distances[i-1]
		if compare(nodes[i-1], nodes[i]) != 0 {
			ranks[i]++
			if differInCost(nodes[i-1].Value, nodes[i].Value) {
				distances[i] += max(0, nodes[i].Value.Cost-nodes[i-1].Value.Cost)
			}
		}
	}
	last := len(nodes) - 1
	spare := top - bottom - ranks[last]
	for i := range nodes {
		switch {
		case ranks[i] == 0:
			scores = append(scores, top)
		case spare < 0: // There are more ranks than points.
			scores = append(scores, max(bottom, top-1-(ranks[i]-1)*(top-bottom)/ranks[last]))
		case distances[last] > 0:
			scores = append(scores, top-ranks[i]-int64(float64(spare)*distances[i]/distances[last]))
		default:
			scores = append(scores, top-ranks[i])
		}
	}
	return scores
}
