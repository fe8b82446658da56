package quartermaster

import (
	"context"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// objectives are what a profile chooses nodes and devices by. They are safe for concurrent use.
type objectives struct {
	strategy  Strategy
	byClass   map[string]Strategy
	closeness []resourceapi.FullyQualifiedName
	// names tell apart, for each strategy, what values are measured by.
	names map[Strategy]string

	mutex sync.Mutex
	// made has the objective of each strategy for the latest demand: what it remembers is of use
	// to all pods.
	made map[Strategy]*allocator.Objective
}

func newObjectives(args *QuartermasterArgs) *objectives {
	o := &objectives{
		strategy: args.Strategy, byClass: args.ClassStrategies, closeness: *args.Closeness,
		names: make(map[Strategy]string), made: make(map[Strategy]*allocator.Objective),
	}
	for strategy := range strategies {
		name := []string{string(strategy)}
		for _, attribute := range o.closeness {
			name = append(name, string(attribute))
		}
		o.names[strategy] = strings.Join(name, "\x00")
	}
	return o
}

// strategyFor returns the strategy for claims: that of the first request whose class has one of its own,
// else that of the profile.
func (o *objectives) strategyFor(claims []*resourceapi.ResourceClaim) Strategy {
	if len(o.byClass) == 0 {
		return o.strategy
	}
	for _, claim := range claims {
		for _, request := range claim.Spec.Devices.Requests {
			class := ""
			if request.Exactly != nil {
				class = request.Exactly.DeviceClassName
			} else if len(request.FirstAvailable) > 0 {
				class = request.FirstAvailable[0].DeviceClassName
			}
			if strategy, has := o.byClass[class]; has {
				return strategy
			}
		}
	}
	return o.strategy
}

// of returns the objective of a strategy.
func (o *objectives) of(strategy Strategy, demand *placement.Demand) *allocator.Objective {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	objective := o.made[strategy]
	if objective == nil || objective.Demand != demand {
		objective = &allocator.Objective{Strategy: strategies[strategy], Demand: demand, Closeness: o.closeness}
		o.made[strategy] = objective
	}
	return objective
}

// know decides what devices are chosen by for a pod, and asks the node cache about its task: that of the
// cycle, or for extended resources the one for most nodes.
func (pl *Quartermaster) know(ctx context.Context, c *cycle, task *allocator.Task, claims []*resourceapi.ResourceClaim) *nodecache.Answer {
	c.strategy = pl.objectives.strategyFor(claims)
	c.objective = pl.objectives.of(c.strategy, pl.state.demand.Demand(pl.state.Rooms.Beside()))
	q := &nodecache.Question{Task: task, Pod: c.takes, By: pl.objectives.names[c.strategy], Version: c.objective.Demand.Version}
	if c.scored {
		q.By = "" // Nodes differ in more than what devices cost, see valueNodes.
	} else {
		q.Rate = func(ctx context.Context, site allocator.Site, room noderoom.Room) (nodecache.Verdict, error) {
			return c.rate(ctx, task, site, room)
		}
	}
	return pl.state.NodeCache.Find(pl.filterContext(ctx, c), q)
}

// rate looks whether there are devices on a site with some room, and what they cost.
func (c *cycle) rate(ctx context.Context, task *allocator.Task, site allocator.Site, room noderoom.Room) (nodecache.Verdict, error) {
	outcome, err := task.Rate(ctx, c.valued(site, room))
	if err != nil {
		return nodecache.Verdict{}, err
	}
	defer outcome.Release()
	return nodecache.Verdict{Fits: outcome.Fits(), GaveUp: outcome.GaveUp, Value: outcome.Value}, nil
}

// valued has the best solution on a site be found, instead of the first one. The room is what is
// free there without the pod.
func (c *cycle) valued(site allocator.Site, room noderoom.Room) allocator.Site {
	site.Objective = c.objective
	site.Free = allocator.Resources{MilliCPU: room.MilliCPU, Memory: room.Memory >> 20}
	if site.Free == (allocator.Resources{}) && room.Pods > 0 {
		site.Free.MilliCPU = -1 // It is known that nothing is left, unlike of a node that says nothing of itself.
	}
	site.Asked = allocator.Resources{MilliCPU: c.takes.MilliCPU, Memory: c.takes.Mebibytes()}
	return site
}
