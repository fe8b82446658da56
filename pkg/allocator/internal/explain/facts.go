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

// Facts are all that reasons and explanations know of a search that found nothing. They are
// only read: nothing here changes what a later question would get as its answer. Pools and
// devices are given by their positions, as the node sees them.
type Facts interface {
	// Context is that of the search. It may have ended.
	Context() context.Context
	// Asked is what was asked for.
	Asked() *task.Task
	Node() *v1.Node
	Pools() []*inventory.NodePool
	// Usage is what the search saw of who uses a pool's devices.
	Usage(pool int) *ledger.PoolUsage

	// Steps is how many devices were tried.
	Steps() int
	// GaveUp reports whether the budget ran out, and Budget what it was: steps for this
	// search, or the common one of several searches.
	GaveUp() bool
	Budget() (steps int, common bool)

	// Candidates are the devices that the search could try for a request, and those that
	// match it. Both are nil for a pool that cannot be allocated from.
	Candidates(r *task.Request, pool int) (usable bitset.Set, selection *selector.Selection)
	// Excluded are devices that it did not try, whatever was asked for: those that need
	// binding conditions which are off, those that need other features which are off, and
	// those that are in use. Each may be nil.
	Excluded(pool int) (hidden, unsupported, occupied bitset.Set)
	// Wanted is how many devices a request needs. For allocation mode All these are all
	// that match and are not ignored.
	Wanted(r *task.Request) int
	// TakesWhole reports whether a device's capacities do not matter to a request.
	TakesWhole(r *task.Request, pool, device int) bool
	// CanShare reports whether a device can be allocated several times, InUse whether
	// anybody has a share of it.
	CanShare(pool, device int) bool
	InUse(pool, device int) bool
	// Joins reports whether the compatibility groups of a device go together with those
	// of the devices in use.
	Joins(pool, device int) bool
	// Values are what a constraint, given by its position among those of all claims, sees of
	// a device. found is false if it does not have the attribute.
	Values(r *task.Request, constraint, pool, device int) (list []attribute.Value, found bool, err error)

	// Attempt looks for devices for other claims on the same node, with a budget of its own.
	// known is false if that was not enough to tell.
	Attempt(steps int, claims ...*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, found, known bool)
}

// inquiry looks for what is wrong, after the search.
type inquiry struct{ Facts }

// place is a device by its position: the pool among those of the node, the device in the pool.
type place struct{ pool, device int }

// constraint is a constraint of a claim.
type constraint struct {
	api *resourceapi.DeviceConstraint
	// index is its position among the constraints of all claims.
	index    int
	name     attribute.Name
	lists    bool // whether lists of values are understood
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
