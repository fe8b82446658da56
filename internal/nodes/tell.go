package nodes

import (
	"slices"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

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
