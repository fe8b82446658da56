package allocator

import (
	"context"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// Objective is what plans are chosen by, see Site. The zero value is what the scheduler takes by
// default.
type Objective = objective.Objective

// Strategy is what a node is to look like afterwards.
type Strategy = objective.Strategy

// What a node is to look like afterwards.
const (
	LeastFragmentation = objective.LeastFragmentation
	Pack               = objective.Pack
	Spread             = objective.Spread
)

// DefaultCloseness are the attributes of which equal values mean that devices are close, if an
// Objective names none.
var DefaultCloseness = objective.DefaultCloseness

// Value is what a plan costs: smaller is better, see Value.Compare.
type Value = objective.Value

// Resources are those of a node that are no devices.
type Resources = search.Resources

// Matched returns how many requests of the task have matching devices in the given pools, whoever holds these,
// and how many there are. Of alternatives the first one counts.
func (t *Task) Matched(ctx context.Context, pools []*inventory.NodePool) (matched, all int) {
	return objective.Matched(ctx, (*task.Task)(t), pools)
}

// Asks returns what the task asks for in the words of a placement.Demand. What only devices can
// tell (which part of one a share takes, how many all are) is looked up in the given pools, such as
// those of the node that the pod is on. Of alternatives the first one counts; admin access, which
// takes nothing from anybody, does not.
func (t *Task) Asks(ctx context.Context, pools []*inventory.NodePool) []placement.Ask {
	return objective.Asks(ctx, (*task.Task)(t), pools)
}
