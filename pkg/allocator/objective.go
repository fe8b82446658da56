package allocator

import (
	"context"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// An Objective ranks plans, see NodeView. The zero value is the scheduler's default.
type Objective = objective.Objective

// A Strategy defines the preferred state of a node after an allocation.
type Strategy = objective.Strategy

// Strategies of an Objective.
const (
	LeastFragmentation = objective.LeastFragmentation
	Spread             = objective.Spread
)

// DefaultCloseness are the attributes whose equal values make devices close, if an Objective names none.
var DefaultCloseness = objective.DefaultCloseness

// A Value is the cost of a plan: smaller is better, see Value.Compare.
type Value = objective.Value

// Resources are the resources of a node other than devices.
type Resources = search.Resources

// Matched returns the number of requests of the task with matching devices in the given pools, regardless of
// holders, and the number of all requests. Only the first alternative of a request counts.
func (t *Task) Matched(ctx context.Context, pools []*inventory.NodePool) (matched, all int) {
	return objective.Matched(ctx, (*task.Task)(t), pools)
}

// Asks returns the requests of the task as a placement.Demand counts them. It looks up facts that depend on
// devices (the fraction of a device that a share takes, the number of all devices) in the given pools, for
// example those of the pod's node. Only the first alternative of a request counts. Admin access does not
// count, because it takes nothing from others.
func (t *Task) Asks(ctx context.Context, pools []*inventory.NodePool) []placement.Ask {
	return objective.Asks(ctx, (*task.Task)(t), pools)
}
