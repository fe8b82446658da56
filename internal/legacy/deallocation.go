package legacy

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/internal/legacy/hub"
)

// errDeallocationRequested is why a claim cannot have new consumers although it is
// allocated (v1alpha2 and v1alpha3, status.deallocationRequested).
var errDeallocationRequested = errors.New("deallocation requested")

// DeallocationRequested says that nobody may begin to use the claim's devices, nil if
// nobody has asked for their deallocation. Whoever allocates has to deallocate: here that
// is the scheduler, so PostFilter does it as soon as a pod wants the claim and nobody has
// it. In Kubernetes 1.31, pods would wait for somebody to do it by hand. It is for claims that
// the scheduler allocates: the others are those of an Attempt.
func DeallocationRequested(claim *resourceapi.ResourceClaim) error {
	if !hub.AlphaClaimOf(claim).DeallocationRequested {
		return nil
	}
	return fmt.Errorf("%w: claim %s must not get new consumers until it has been allocated anew", errDeallocationRequested, claimname.Of(claim))
}
