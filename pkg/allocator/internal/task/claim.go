package task

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
)

// Claim is a ResourceClaim of a task.
type Claim struct {
	Index       int
	API         *resourceapi.ResourceClaim
	Slots       []Slot
	Constraints []resourceapi.DeviceConstraint
	// FirstConstraint is how many constraints the claims before this one have.
	FirstConstraint int
	// Most is how many devices it can have: AllocationResultsMaxSize in v1.
	Most int
	// Err is why it is not known what the claim asks for. It has no slots then.
	Err error
}

// Slot is a DeviceRequest: alternatives of which exactly one gets devices. A
// request without firstAvailable is its own only alternative.
type Slot struct {
	ID           int // counts through all claims
	Name         string
	Alternatives []*Request
	Err          error // why the request cannot be handled, found before looking at alternatives
	// LeftOut is why the first of the alternatives that are left out cannot be handled. There are others.
	LeftOut error
}

// ConstraintErr says which constraint cannot be handled.
func (c *Claim) ConstraintErr() error {
	for i, constraint := range c.Constraints {
		if constraint.MatchAttribute == nil && constraint.DistinctAttribute == nil {
			return fmt.Errorf("claim %s constraint %d: is neither matchAttribute nor distinctAttribute; "+
				"it may use an API that this scheduler does not know", claimname.Of(c.API), i)
		}
	}
	return nil
}

// RequestsWithDerived returns the requests and alternatives of the claim that
// derive attributes of their own.
func (c *Claim) RequestsWithDerived() []*Request {
	var result []*Request
	for _, slot := range c.Slots {
		for _, r := range slot.Alternatives {
			if len(r.Derived) > 0 {
				result = append(result, r)
			}
		}
	}
	return result
}
