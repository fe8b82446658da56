package nodescore

import (
	"slices"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Choice is a node that was chosen, and what it was chosen by.
type Choice struct {
	Node     string
	Outcome  *allocator.Outcome
	Strategy string
	// DemandVersion is that of the demand which the values are measured by.
	DemandVersion uint64
	// Ranking are the nodes that were scored, the best first.
	Ranking []Node
}

// Tell says which node and devices were chosen, and what for, to people who want to know.
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
