package search

import (
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// results returns the solution as allocations for the status of the claims.
func (s *Search) results() ([]resourceapi.AllocationResult, error) {
	results := make([]resourceapi.AllocationResult, len(s.Claims()))
	for i, c := range s.Claims() {
		devices := make([]resourceapi.DeviceRequestAllocationResult, len(s.placed[i]))
		for j := range s.placed[i] {
			s.fillDevice(&devices[j], &s.placed[i][j])
		}
		nodeSelector, err := s.selectorFor(s.placed[i])
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", dra.Of(c.API), err)
		}
		results[i].Devices.Results = devices
		results[i].Devices.Config = c.Config(func(slot int) *task.Request { return s.selected(c, slot) })
		results[i].NodeSelector = nodeSelector
	}
	return results, nil
}

// selectorFor returns the node selector for a claim's devices.
func (s *Search) selectorFor(placed []placement) (*v1.NodeSelector, error) {
	if s.onlyOnThisNode(placed) {
		return onlyNode(s.view.Node.Name), nil // As Selector, which allocates memory for other cases.
	}
	return Selector(s.view.Node, s.devicesOf(placed), s.Settings().AsUpstream)
}

// checkResults returns the error that results would return, without making the results.
func (s *Search) checkResults() ([]resourceapi.AllocationResult, error) {
	for i, c := range s.Claims() {
		if s.onlyOnThisNode(s.placed[i]) {
			continue
		}
		if _, err := Selector(s.view.Node, s.devicesOf(s.placed[i]), s.Settings().AsUpstream); err != nil {
			return nil, fmt.Errorf("claim %s: %w", dra.Of(c.API), err)
		}
	}
	return nil, nil
}

func (s *Search) devicesOf(placed []placement) iter.Seq[*inventory.Device] {
	return func(yield func(*inventory.Device) bool) {
		for i := range placed {
			if !yield(s.device(placed[i].at)) {
				return
			}
		}
	}
}

// onlyOnThisNode reports whether the first device is local to the node. The selector of the claim then cannot fail.
func (s *Search) onlyOnThisNode(devices []placement) bool {
	return len(devices) > 0 && s.device(devices[0].at).Slice.Spec.NodeName != nil
}

// fillDevice sets the fields of a chosen device's result. It writes only non-empty fields, because there are
// many fields and most are empty.
func (s *Search) fillDevice(result *resourceapi.DeviceRequestAllocationResult, p *placement) {
	device := s.device(p.at)
	result.Request = p.request.Reference()
	result.Driver = device.Slice.Spec.Driver
	result.Pool = device.Slice.Spec.Pool.Name
	result.Device = device.Name
	if p.request.Tolerations != nil {
		result.Tolerations = p.request.Tolerations
	}
	if device.Slice.Spec.SkipNodeOperations != nil {
		result.SkipNodeOperations = device.Slice.Spec.SkipNodeOperations
	}
	if p.shared {
		result.ShareID = ptr.To(s.Settings().ShareID())
		if len(p.consumed) > 0 {
			result.ConsumedCapacity = p.consumed
		}
	}
	if p.request.Admin {
		result.AdminAccess = ptr.To(true)
	}
	if s.Settings().Features.DeviceBindingAndStatus && device.BindingConditions != nil {
		result.BindingConditions = device.BindingConditions
	}
	if s.Settings().Features.DeviceBindingAndStatus && device.BindingFailureConditions != nil {
		result.BindingFailureConditions = device.BindingFailureConditions
	}
}

// selected returns the chosen request or alternative of a slot.
func (s *Search) selected(c *task.Claim, slot int) *task.Request {
	return c.Slots[slot].Alternatives[s.chosen[c.Slots[slot].ID]]
}
