package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/nodescore"
)

// PreScore notes which nodes would do as far as anybody but controllers of drivers knows, and what
// devices cost there. Pods that need no devices are left to other plugins.
func (pl *Quartermaster) PreScore(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	c.legacy.SetFeasible(nodes)
	pl.valueNodes(ctx, c, nodes)
	return nil
}

// Score prefers nodes on which requests get their first alternatives (KEP-4816):
// for each request with alternatives, the more the earlier in the list. Among those that are
// equal in that, NormalizeScore prefers the ones where the devices cost the least.
func (pl *Quartermaster) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := cycleOf(cs)
	if err != nil {
		return 0, failed(err)
	}
	if c == nil {
		return 0, nil
	}
	// Without alternatives in the task, it makes no other difference.
	if !pl.features.EnableDRAPrioritizedList || c.task != nil && !c.scored {
		return 0, nil
	}
	return c.merit(nodeInfo.Node().Name), nil
}

// merit says how early the alternatives come that a node has for the pod; 0 if that is not known.
func (c *cycle) merit(node string) (merit int64) {
	plan := c.found[node]
	for _, podClaim := range c.claims {
		allocation := podClaim.Decided()
		if allocation == nil {
			if len(plan) == 0 {
				return 0
			}
			allocation, plan = &plan[0], plan[1:]
		}
		merit += nodescore.Alternatives(podClaim.Object, allocation)
	}
	return merit
}

// ScoreExtensions implements fwk.ScorePlugin.
func (pl *Quartermaster) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore scales the best score to the maximum.
func (pl *Quartermaster) NormalizeScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c != nil {
		pl.scoreValues(c, scores)
	}
	return nil
}
