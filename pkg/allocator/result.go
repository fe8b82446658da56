package allocator

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// results turns the solution into what goes into the status of the claims.
func (s *search) results() ([]resourceapi.AllocationResult, error) {
	results := make([]resourceapi.AllocationResult, len(s.claims))
	for i, c := range s.claims {
		devices := make([]resourceapi.DeviceRequestAllocationResult, len(s.placed[i]))
		for j, p := range s.placed[i] {
			devices[j] = s.deviceResult(p)
		}
		nodeSelector, err := s.nodeSelector(s.placed[i])
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", klog.KObj(c.api), err)
		}
		results[i] = resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{
				Results: devices,
				Config:  s.config(c),
			},
			NodeSelector: nodeSelector,
		}
	}
	return results, nil
}

func (s *search) deviceResult(p placement) resourceapi.DeviceRequestAllocationResult {
	device := s.device(p.at)
	result := resourceapi.DeviceRequestAllocationResult{
		Request:            p.request.reference(),
		Driver:             device.Slice.Spec.Driver,
		Pool:               device.Slice.Spec.Pool.Name,
		Device:             device.Name,
		Tolerations:        p.request.tolerations,
		SkipNodeOperations: device.Slice.Spec.SkipNodeOperations,
	}
	if p.shared {
		result.ShareID = ptr.To(s.solver.shareID())
		if len(p.consumed) > 0 {
			result.ConsumedCapacity = p.consumed
		}
	}
	if p.request.admin {
		result.AdminAccess = ptr.To(true)
	}
	if s.solver.Features.DeviceBindingAndStatus {
		result.BindingConditions = device.BindingConditions
		result.BindingFailureConditions = device.BindingFailureConditions
	}
	return result
}

// selected returns the request or alternative that was chosen for a slot.
func (s *search) selected(c *claim, slot int) *request {
	return c.slots[slot].alternatives[s.chosen[c.slots[slot].id]]
}
