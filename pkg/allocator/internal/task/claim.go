package task

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// Claim is a ResourceClaim of a task.
type Claim struct {
	Index       int
	API         *resourceapi.ResourceClaim
	Slots       []Slot
	Constraints []resourceapi.DeviceConstraint
	// FirstConstraint is the number of constraints of the claims before this one.
	FirstConstraint int
	// Most is the maximum number of devices: AllocationResultsMaxSize in v1.
	Most int
	// Err is set if the requests of the claim are unknown. The claim has no slots then.
	Err error
}

// A Slot is a DeviceRequest: a list of alternatives. Exactly one alternative gets devices. A request without
// firstAvailable is its own only alternative.
type Slot struct {
	ID           int // unique across all claims
	Name         string
	Alternatives []*Request
	Err          error // reason why the request cannot be handled, found before its alternatives are read
	// LeftOut is the error of the first alternative that was left out because others can be handled.
	LeftOut error
}

// ConstraintErr returns an error for the first constraint that cannot be handled.
func (c *Claim) ConstraintErr() error {
	for i, constraint := range c.Constraints {
		if constraint.MatchAttribute == nil && constraint.DistinctAttribute == nil {
			return fmt.Errorf("claim %s constraint %d: is neither matchAttribute nor distinctAttribute; "+
				"it may use an API that this scheduler does not know", dra.Of(c.API), i)
		}
	}
	return nil
}

// RequestsWithDerived returns the requests and alternatives of the claim with derived attributes.
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
