package explain

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Facts are the data of a search that found nothing. Reasons and explanations only read them, so that no question
// changes the answer to a later one. Pools and devices are identified by their positions in the node view.
type Facts interface {
	// Context returns the context of the search. It may have ended.
	Context() context.Context
	// Asked returns the claims of the search.
	Asked() *task.Task
	Node() *v1.Node
	Pools() []*inventory.NodePool
	// Usage returns the usage of a pool's devices as the search saw it.
	Usage(pool int) *ledger.PoolUsage

	// Steps returns the number of devices that were tried.
	Steps() int
	// GaveUp reports whether the budget ran out. Budget returns the budget: the steps for this search, or the
	// common budget of several searches.
	GaveUp() bool
	Budget() (steps int, common bool)

	// Candidates returns the devices that the search could try for a request, and those that match it. Both
	// are nil for a pool that cannot be allocated from.
	Candidates(r *task.Request, pool int) (usable bitset.Set, selection *selector.Selection)
	// Excluded returns the devices that the search never tries: devices that need binding conditions while
	// these are off, devices that need other features that are off, and devices in use. Each may be nil.
	Excluded(pool int) (hidden, unsupported, occupied bitset.Set)
	// Wanted returns the number of devices that a request needs. For allocation mode All it counts all
	// devices that match and are not ignored.
	Wanted(r *task.Request) int
	// TakesWhole reports whether a device's capacities do not matter to a request.
	TakesWhole(r *task.Request, pool, device int) bool
	// CanShare reports whether a device allows multiple allocations, InUse whether any claim has a share of it.
	CanShare(pool, device int) bool
	InUse(pool, device int) bool
	// Joins reports whether the compatibility groups of a device are compatible with those of the devices in use.
	Joins(pool, device int) bool
	// Values returns the values of a device for a constraint, given by its position among those of all
	// claims. found is false if the device does not have the attribute.
	Values(r *task.Request, constraint, pool, device int) (list []attribute.Value, found bool, err error)

	// Attempt looks for devices for other claims on the same node, with its own budget. known is false if the
	// budget did not suffice for an answer.
	Attempt(steps int, claims ...*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, found, known bool)
}

// inquiry finds the problem after a search.
type inquiry struct{ Facts }

// deviceIndex identifies a device by its positions: of the pool among those of the node, and of the device in the pool.
type deviceIndex struct{ pool, device int }

// constraint is a constraint of a claim.
type constraint struct {
	api *resourceapi.DeviceConstraint
	// index is its position among the constraints of all claims.
	index    int
	name     attribute.Name
	lists    bool // whether lists of values are supported
	distinct bool
}

// appliesTo reports whether the constraint covers a request.
func (c *constraint) appliesTo(r *task.Request) bool { return r.IsCoveredBy(c.api) }

func (q inquiry) constraintsOf(c *task.Claim) []constraint {
	list := make([]constraint, len(c.Constraints))
	for i := range c.Constraints {
		api := &c.Constraints[i]
		list[i] = constraint{
			api: api, index: c.FirstConstraint + i, distinct: api.MatchAttribute == nil,
			name: attribute.NewName(attribute.OfConstraint(api)), lists: q.Asked().Settings().Features.ListTypeAttributes,
		}
	}
	return list
}
