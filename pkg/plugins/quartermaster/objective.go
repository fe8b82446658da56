package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// know sets the objective for a pod's devices, and asks the node cache about a task: the cycle's, or for extended
// resources the task for most nodes.
func (pl *Quartermaster) know(ctx context.Context, c *cycle, pod *v1.Pod, task *allocator.Task, claims []*resourceapi.ResourceClaim) *nodecache.Answer {
	c.strategy = pl.objectives.StrategyFor(claims)
	c.objective = pl.objectives.Of(c.strategy, pl.state.demand.Demand(pl.state.Rooms.Beside()))
	c.accepts = pl.accepts(ctx, c, pod)
	q := &nodecache.Question{Task: task, Pod: c.takes, By: pl.objectives.Name(c.strategy), Version: c.objective.Demand.Version, Accepts: c.accepts, All: c.planning}
	if c.scored {
		q.By = "" // Nodes differ in more than the cost of devices, see valueNodes.
	} else {
		q.Rate = func(ctx context.Context, site allocator.Site, room noderesources.Room) (nodecache.Verdict, error) {
			return c.rate(ctx, task, site, room)
		}
	}
	c.question = q
	return pl.state.NodeCache.Find(pl.filterContext(ctx, c), q)
}

// rate determines whether a site with some room has devices, and their cost.
func (c *cycle) rate(ctx context.Context, task *allocator.Task, site allocator.Site, room noderesources.Room) (nodecache.Verdict, error) {
	outcome, err := task.Rate(ctx, c.valued(site, room))
	if err != nil {
		return nodecache.Verdict{}, err
	}
	defer outcome.Release()
	return nodecache.Verdict{Fits: outcome.Fits(), GaveUp: outcome.GaveUp, Value: outcome.Value}, nil
}

// valued adds the objective to a site, so that the search finds the best solution instead of the first one. room is the
// node's free room without the pod.
func (c *cycle) valued(site allocator.Site, room noderesources.Room) allocator.Site {
	site.Objective = c.objective
	site.Free = allocator.Resources{MilliCPU: room.MilliCPU, Memory: room.Memory >> 20}
	if site.Free == (allocator.Resources{}) && room.Pods > 0 {
		site.Free.MilliCPU = -1 // Nothing is left, as opposed to a node that reports no resources.
	}
	site.Asked = allocator.Resources{MilliCPU: c.takes.MilliCPU, Memory: c.takes.Mebibytes()}
	return site
}
