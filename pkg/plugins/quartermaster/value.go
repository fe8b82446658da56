package quartermaster

import (
	"context"
	"slices"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/internal/nodescore"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// On so many nodes it is worked out before they are scored what devices cost, if the node cache does not know
// it: mostRated for a task that nobody had before, fewRated where that takes longer or matters less: for
// devices that several nodes reach, and where alternatives make one node better than another.
const (
	mostRated = 16
	fewRated  = 4
)

// busyWithin is how long ago another scheduler that takes part in the protocol may have been heard of for nodes to be scattered.
const busyWithin = 10 * time.Second

// choosesForGroup reports whether the node that the pod gets decides where others of its group can be: one of its claims is the
// group's and not allocated yet. The node that costs least has few devices left for these, so that the group would not fit.
func (c *cycle) choosesForGroup() bool {
	return slices.ContainsFunc(c.claims, func(claim *podClaim) bool { return claim.Group != nil && claim.Decided() == nil })
}

// valueNodes finds out what it costs to take devices on nodes for which the pod fits, or on some of them if
// that is not known. A node of which it cannot be said counts as the worst.
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
					failing = append(failing, node) // What is known is what it costs others.
				} else {
					c.values[name] = value
				}
				continue
			}
		}
		unknown = append(unknown, node)
	}
	unknown = append(failing, unknown...)
	most := mostRated
	if c.scored {
		unknown, most = c.bestInMerit(unknown), fewRated
	} else if c.known.IsTied() {
		most = fewRated
	}
	unknown = unknown[:min(most, len(unknown))]
	verdicts := make([]nodecache.Verdict, len(unknown))
	pl.handle.Parallelizer().Until(ctx, len(unknown), func(i int) {
		if task, _ := c.taskOn(unknown[i]); task != nil {
			verdicts[i], _ = c.rate(pl.filterContext(ctx, c), task, pl.ownView(c, unknown[i].Node()), noderoom.On(unknown[i]))
		}
	}, Name)
	for i, verdict := range verdicts {
		if verdict.Fits {
			c.values[unknown[i].Node().Name] = verdict.Value
		}
	}
}

// bestInMerit returns the nodes that have the best alternatives.
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

// taskOn returns the task for a node, and what is known about it.
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

// scoreValues makes the final scores of those for first alternatives, and of what the devices cost.
func (pl *Quartermaster) scoreValues(c *cycle, scores fwk.NodeScoreList) {
	ranking := nodescore.Ranking{Values: c.values, Scattered: pl.contest.Contenders.ParticipantHeard(busyWithin), Seed: pl.handle.ProfileName()}
	c.ranking = ranking.Score(scores)
}
