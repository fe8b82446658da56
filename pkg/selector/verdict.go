package selector

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/boundedcel"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// lazyProgram is an expression that is compiled before its first evaluation.
type lazyProgram struct {
	text    string
	program *program
}

// deviceOf returns a device as expressions see it.
func deviceOf(slice *inventory.Slice, published *resourceapi.Device) cel.Device {
	return cel.Device{
		Driver:                   slice.Spec.Driver,
		AllowMultipleAllocations: published.AllowMultipleAllocations,
		Attributes:               published.Attributes,
		Capacity:                 boundedcel.Capacities(published.Capacity),
	}
}

// verdict returns whether a device matches an expression. It evaluates the expression unless the verdict for
// a device that looks the same is known. The error is a compileError or a runtimeError. After the context has
// ended the result means nothing: it may come from the interruption.
func (e *Evaluator) verdict(ctx context.Context, x *lazyProgram, device *cel.Device) (bool, error) {
	if seen := e.looks.seen(x.text, device); seen != nil {
		return seen.matches, seen.err
	}
	if x.program == nil {
		x.program = e.compile(x.text)
	}
	if x.program.err != nil {
		return false, x.program.err
	}
	e.evaluations.Add(1)
	matches, err := e.run(ctx, x.program, device)
	if err != nil {
		matches, err = false, newRuntimeError(err)
	}
	if ctx.Err() == nil {
		e.looks.add(x.program.v1, device, matches, err)
	}
	return matches, err
}
