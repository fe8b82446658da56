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
// once for each version of the device. The error wraps ErrCompile or ErrRuntime.
func (e *Evaluator) Derive(ctx context.Context, device *inventory.Device, expression string) (*resourceapi.DeviceAttribute, error) {
	cached := device.Slice.Derived.Get(expression)
	if cached == nil {
		all := e.deriveAll(ctx, device.Slice, expression)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		cached = device.Slice.Derived.Put(expression, all)
	}
	result := cached.(map[string]derived)[device.Name]
	return result.attribute, result.err
}

func (e *Evaluator) deriveAll(ctx context.Context, slice *inventory.Slice, expression string) map[string]derived {
	results := make(map[string]derived, len(slice.Spec.Devices))
	program := e.compiled.GetOrCompileDerivedAttribute(expression)
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		if program.Error != nil {
			results[device.Name] = derived{err: &compileError{program.Error}}
			continue
		}
		attribute, _, err := program.EvaluateDerivedAttribute(ctx, cel.Device{
			Driver:                   slice.Spec.Driver,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
		})
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrRuntime, cel.EnhanceRuntimeError(err))
		}
		results[device.Name] = derived{attribute, err}
	}
	return results
}
