package nodes

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Alternatives returns the merit of an allocation (KEP-4816), summed over all requests with
// alternatives. The first alternative counts as many points as there can be alternatives, each
// further one a point less.
func Alternatives(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) int64 {
	chosen := make(map[string]bool)
	for _, result := range allocation.Devices.Results {
		chosen[result.Request] = true
	}
	var score int64
	for _, request := range claim.Spec.Devices.Requests {
		for i, alternative := range request.FirstAvailable {
			if chosen[resourceclaim.CreateSubRequestRef(request.Name, alternative.Name)] {
				score += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - i)
			}
		}
	}
	return score
}
