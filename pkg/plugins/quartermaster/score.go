package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/nodes"
)

// PreScore stores the feasible nodes for the controllers of drivers to judge, and the cost of devices there. It skips
// pods that need no devices, unless these are placed as well.
func (pl *Quartermaster) PreScore(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c == nil {
		return pl.valueWithoutDevices(ctx, pl.withoutDevicesIn(cs), pod, nodes)
	}
	c.legacy.SetFeasible(nodes)
	pl.valueNodes(ctx, c, nodes)
	return nil
}

// Score prefers nodes on which requests get their first alternatives (KEP-4816): for each request with alternatives,
// the earlier the alternative in the list, the higher the score. Among equal nodes, NormalizeScore prefers those where
// the devices cost the least.
func (pl *Quartermaster) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := cycleOf(cs)
	if err != nil {
		return 0, failed(err)
	}
	if c == nil {
		return pl.withoutDevicesIn(cs).merit(nodeInfo.Node().Name), nil
	}
	// Without alternatives in the task, all nodes have the same score.
	if !pl.features.EnableDRAPrioritizedList || c.task != nil && !c.scored {
		return 0, nil
	}
	return c.merit(nodeInfo.Node().Name), nil
}

// merit returns the score of the alternatives that a node has for the pod; 0 if they are not known.
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
		merit += nodes.Alternatives(podClaim.Object, allocation)
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
		pl.scoreValues(&c.cycleNodes, scores)
	} else if w := pl.withoutDevicesIn(cs); w != nil {
		pl.scoreValues(&w.cycleNodes, scores)
	}
	return nil
}
