package nodes

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
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
	for request := range dra.Requests(claim) {
		if request.Alternative != "" && chosen[request.Name()] {
			score += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - request.Rank)
		}
	}
	return score
}
