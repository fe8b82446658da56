package write

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// IsReservedFor reports whether the UID is among the consumers of the claim (status.reservedFor).
func IsReservedFor(claim *resourceapi.ResourceClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return consumer.UID == uid
	})
}

// RemoveConsumer removes the UID from the consumers of the claim, which it changes.
func RemoveConsumer(claim *resourceapi.ResourceClaim, uid types.UID) {
	claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		return consumer.UID == uid
	})
}
