package nodes

import (
	"math"
	"slices"

	"k8s.io/klog/v2"
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

// Choice is a chosen node with the data of the choice.
type Choice struct {
	Node     string
	Outcome  *allocator.Outcome
	Strategy string
	// DemandVersion is the version of the demand that the values are based on.
	DemandVersion uint64
	// Ranking holds the scored nodes, best first.
	Ranking []Node
}

// Tell logs the chosen node and devices, and the data of the choice, at verbosity 4.
func (c Choice) Tell(logger klog.Logger) {
	logger = logger.V(4)
	if !logger.Enabled() {
		return
	}
	var devices []string
	for i := range c.Outcome.Results {
		for _, result := range c.Outcome.Results[i].Devices.Results {
			devices = append(devices, result.Driver+"/"+result.Pool+"/"+result.Device)
		}
	}
	details := []any{
		"node", klog.KRef("", c.Node), "devices", devices, "strategy", c.Strategy, "demandVersion", c.DemandVersion,
		"value", c.Outcome.Value.String(), "firstSolution", c.Outcome.FirstFit.String(), "compared", c.Outcome.Compared,
		"keptWhole", c.Outcome.Whole, "firstSolutionKeepsWhole", c.Outcome.FirstFitWhole, "nodesScored", len(c.Ranking),
	}
	if other := slices.IndexFunc(c.Ranking, func(n Node) bool { return n.Name != c.Node }); other >= 0 {
		details = append(details, "runnerUp", klog.KRef("", c.Ranking[other].Name), "runnerUpValue", c.Ranking[other].Value.String())
	}
	logger.Info("Chose devices", details...)
}
