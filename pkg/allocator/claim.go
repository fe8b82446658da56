package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
)

// claim is a ResourceClaim of a task.
type claim struct {
	index       int
	api         *resourceapi.ResourceClaim
	slots       []slot
	constraints []resourceapi.DeviceConstraint
	// firstConstraint is how many constraints the claims before this one have.
	firstConstraint int
	// most is how many devices it can have: AllocationResultsMaxSize in v1.
	most int
	// err is why it is not known what the claim asks for. It has no slots then.
	err error
}

// slot is a DeviceRequest: alternatives of which exactly one gets devices. A
// request without firstAvailable is its own only alternative.
type slot struct {
	id           int // counts through all claims
	name         string
	alternatives []*request
	err          error // why the request cannot be handled, found before looking at alternatives
}

// constraintErr says which constraint cannot be handled.
func (c *claim) constraintErr() error {
	for i, constraint := range c.constraints {
		if constraint.MatchAttribute == nil && constraint.DistinctAttribute == nil {
			return fmt.Errorf("claim %s, constraint %d: is neither matchAttribute nor distinctAttribute; "+
				"it may use an API that this scheduler does not know", claimname.Of(c.api), i)
		}
	}
	return nil
}

// requestsWithDerived returns the requests and alternatives of the claim that
// derive attributes of their own.
func (c *claim) requestsWithDerived() []*request {
	var result []*request
	for _, slot := range c.slots {
		for _, r := range slot.alternatives {
			if len(r.derived) > 0 {
				result = append(result, r)
			}
		}
	}
	return result
}
