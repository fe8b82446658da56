package classicdra

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// errDeallocationRequested means that an allocated claim cannot have new consumers (v1alpha2 and v1alpha3,
// status.deallocationRequested).
var errDeallocationRequested = errors.New("deallocation requested")

// DeallocationRequested returns an error if deallocation of the claim was requested, so that no pod may begin to use
// its devices. The allocating side must deallocate. Here that is the scheduler: PostFilter deallocates as soon as a
// pod wants the claim and no pod uses it. In Kubernetes 1.31, pods would wait for a manual deallocation. It is for
// claims that the scheduler allocates; an Attempt covers the others.
func DeallocationRequested(claim *resourceapi.ResourceClaim) error {
	if !conversion.AlphaClaimOf(claim).DeallocationRequested {
		return nil
	}
	return fmt.Errorf("%w: claim %s must not get new consumers until it has been allocated again", errDeallocationRequested, dra.Of(claim))
}
