package quartermaster

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// The numbers of nodes for which valueNodes computes the cost of devices, if the node cache does not know it: mostRated
// for a new task, fewRated where it takes longer or matters less, that is, for devices that several nodes reach, and
// where alternatives make one node better than another.
const (
	mostRated = 16
	fewRated  = 4
)

// busyWithin is the time since the last sign of another scheduler that takes part in the protocol during which nodes
// are scattered.
const busyWithin = 10 * time.Second

// choosesForGroup reports whether the pod's node determines where other pods of its group can be: one of its claims
// belongs to the group and is not allocated yet. The node with the lowest cost has few devices left for these pods, so
// the group would not fit.
func (c *cycleClaims) choosesForGroup() bool {
	return slices.ContainsFunc(c.claims, func(claim *podClaim) bool { return claim.Group != nil && claim.Decided() == nil })
}

// valueNodes determines the cost of devices on nodes that fit the pod, or on some of them if it is not known yet. A
// node with unknown cost counts as the worst.
func (pl *Quartermaster) valueNodes(ctx context.Context, c *cycle, nodes []fwk.NodeInfo) {
	if c.objective == nil || c.choosesForGroup() {
		return
	}
	c.values = make(map[string]allocator.Value, len(nodes))
	var failing, unknown []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		if _, known := c.taskOn(node); known != nil {
			if value, has := known.Value(name); has {
				if c.hasFailedIn(pl.state.Inventory.OnNode(node.Node())) {
					failing = append(failing, node) // The cached value does not consider this pod's failed devices.
				} else {
					c.values[name] = value
				}
				continue
			}
		}
		unknown = append(unknown, node)
	}
	unknown = append(failing, unknown...)
	if c.nodeCost != nil {
		unknown = inUseFirst(unknown)
	}
	most := mostRated
	if c.scored {
		unknown, most = c.bestInMerit(unknown), fewRated
	} else if c.known.IsShared() {
		most = fewRated
	}
	unknown = unknown[:min(most, len(unknown))]
	verdicts := make([]nodecache.Verdict, len(unknown))
	pl.handle.Parallelizer().Until(ctx, len(unknown), func(i int) {
		if task, _ := c.taskOn(unknown[i]); task != nil {
			verdicts[i], _ = c.rate(pl.filterContext(ctx, c), task, pl.ownView(c, unknown[i].Node()), noderesources.On(unknown[i]))
		}
	}, Name)
	for i, verdict := range verdicts {
		if verdict.Fits {
			c.values[unknown[i].Node().Name] = verdict.Value
		}
	}
}

// costVersion returns the version of all costs. Those of nodes change with time, so each hour has its own.
func (c *cycleNodes) costVersion() uint64 {
	version := c.objective.Demand.Version
	if c.nodeCost != nil {
		version += uint64(time.Now().Unix()/3600) << 32
	}
	return version
}

// inUseFirst returns the nodes in use before those that would have to be kept for the pod alone.
func inUseFirst(infos []fwk.NodeInfo) []fwk.NodeInfo {
	used, unused := make([]fwk.NodeInfo, 0, len(infos)), []fwk.NodeInfo(nil)
	for _, info := range infos {
		if noderesources.On(info).Since != 0 {
			used = append(used, info)
		} else {
			unused = append(unused, info)
		}
	}
	return append(used, unused...)
}

// rate determines whether a site with some room has devices, and their cost.
func (c *cycleNodes) rate(ctx context.Context, task *allocator.Task, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
	outcome, err := task.Rate(ctx, c.valued(site, room))
	if err != nil {
		return nodecache.Verdict{}, err
	}
	defer outcome.Release()
	verdict := nodecache.Verdict{Fits: outcome.Fits(), GaveUp: outcome.GaveUp, Value: outcome.Value}
	if c.nodeCost != nil {
		verdict.Value.Node = c.nodeCost(site.Node, room.Since)
	}
	return verdict, nil
}

// nodeCost returns the cost of nodes for a strategy, nil if it does not matter.
func (pl *Quartermaster) nodeCost(strategy Strategy) func(node *v1.Node, since int64) float64 {
	if strategy != Consolidate {
		return nil
	}
	return func(node *v1.Node, since int64) float64 {
		return nodes.Cost(node, pl.args.NodeCostLabel, since, time.Now())
	}
}

// valued adds the objective to a site, so that the search finds the best solution instead of the first one. room is the
// node's free room without the pod.
func (c *cycleNodes) valued(site allocator.NodeView, room noderesources.Resources) allocator.NodeView {
	site.Objective = c.objective
	site.Free = allocator.Resources{MilliCPU: room.MilliCPU, Memory: room.Memory >> 20}
	if site.Free == (allocator.Resources{}) && room.Pods > 0 {
		site.Free.MilliCPU = -1 // Nothing is left, as opposed to a node that reports no resources.
	}
	site.Asked = allocator.Resources{MilliCPU: c.takes.MilliCPU, Memory: c.takes.Mebibytes()}
	return site
}

// bestInMerit returns the nodes with the best alternatives.
func (c *cycle) bestInMerit(nodes []fwk.NodeInfo) (best []fwk.NodeInfo) {
	most := int64(-1)
	for _, node := range nodes {
		merit := c.merit(node.Node().Name)
		if merit > most {
			best, most = nil, merit
		}
		if merit == most {
			best = append(best, node)
		}
	}
	return best
}

// taskOn returns the task for a node, and the node cache's answer about it.
func (c *cycle) taskOn(nodeInfo fwk.NodeInfo) (*allocator.Task, *nodecache.Answer) {
	if c.extended == nil {
		return c.task, c.known
	}
	variant, err := c.extended.VariantOn(nodeInfo.Node().Name, nodeInfo.GetAllocatable().GetScalarResources())
	switch {
	case err != nil:
		return nil, nil
	case variant != c.extended.Full():
		return variant.Task, nil
	}
	return variant.Task, c.known
}

// scoreValues computes the final scores from those for first alternatives and the cost of the devices.
func (pl *Quartermaster) scoreValues(c *cycleNodes, scores fwk.NodeScoreList) {
	ranking := nodes.Ranking{Values: c.values, Scattered: pl.foreign.Competitors.ParticipantHeard(busyWithin), Seed: pl.handle.ProfileName()}
	c.ranking = ranking.Score(scores)
}
