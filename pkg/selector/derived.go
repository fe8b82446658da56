package selector

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// derived is an attribute that was derived for a device, nil if it has none.
type derived struct {
	attribute *resourceapi.DeviceAttribute
	err       error
}

// Derive returns the attribute that an expression derives from a device
// (DeviceDerivedAttribute), nil if it derives none. Like selectors it is evaluated
// once for devices that look the same. The error wraps ErrCompile or ErrRuntime.
func (e *Evaluator) Derive(ctx context.Context, device *inventory.Device, expression string) (*resourceapi.DeviceAttribute, error) {
	content := device.Slice.Content
	cached := content.Derived.Get(expression)
	if cached == nil {
		all := e.deriveAll(ctx, device.Slice, expression)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		cached = content.Derived.Put(expression, all)
	}
	result := cached.([]derived)[position(device)]
	return result.attribute, result.err
}

// position returns where a device is in its slice.
func position(device *inventory.Device) int {
	devices := device.Slice.Spec.Devices
	for i := range devices {
		if &devices[i] == device.Device {
			return i
		}
	}
	panic(fmt.Sprintf("device %s is none of its slice %s", device.Name, device.Slice.Name))
}

func (e *Evaluator) deriveAll(ctx context.Context, slice *inventory.Slice, expression string) []derived {
	results := make([]derived, len(slice.Spec.Devices))
	program := e.compiled.GetOrCompileDerivedAttribute(expression)
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		if program.Error != nil {
			results[i] = derived{err: &compileError{program.Error}}
			continue
		}
		e.evaluations.Add(1)
		attribute, _, err := program.EvaluateDerivedAttribute(ctx, cel.Device{
			Driver:                   slice.Spec.Driver,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
		})
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrRuntime, cel.EnhanceRuntimeError(err))
		}
		results[i] = derived{attribute, err}
	}
	return results
}
