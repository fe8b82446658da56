package selector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

var (
	// ErrCompile marks a selector that is no valid CEL expression for devices.
	ErrCompile = errors.New("CEL compile error")
	// ErrRuntime marks a selector that could not be evaluated for a device, often
	// because it reads an attribute that the device does not have, or because it
	// exceeded the cost limit.
	ErrRuntime = errors.New("CEL runtime error")
)

// compileError is an expression that is none. It is an ErrCompile.
type compileError struct{ cause error }

func (e *compileError) Error() string { return ErrCompile.Error() + ": " + e.message() }

func (e *compileError) Unwrap() []error { return []error{ErrCompile, e.cause} }

// message is what the compiler says, without the lines in which it repeats the
// expression to point into it. The first gives the position as line:column anyway.
func (e *compileError) message() string {
	var said []string
	for line := range strings.Lines(strings.TrimPrefix(e.cause.Error(), "compilation failed: ")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") {
			said = append(said, strings.TrimPrefix(line, "ERROR: <input>:"))
		}
	}
	return strings.Join(said, "; ")
}

// Evaluator evaluates CEL expressions over pools. It is safe for concurrent use.
type Evaluator struct {
	compiled    *cel.Cache
	evaluations atomic.Uint64
}

// NewEvaluator returns an evaluator that compiles with the given cache. Verdicts
// are cached by expression, so all evaluators that see the same pools must
// support the same CEL features.
func NewEvaluator(compiled *cel.Cache) *Evaluator {
	return &Evaluator{compiled: compiled}
}

// Evaluations returns how often an expression was evaluated for a device so far.
func (e *Evaluator) Evaluations() uint64 { return e.evaluations.Load() }

// verdict is the outcome of one expression for a list of devices.
type verdict struct {
	matches bitset.Set
	errors  map[int]error // by position of the device; wraps ErrCompile or ErrRuntime
}

// overSlice evaluates an expression for all devices of a slice. It fails only if
// the context ends.
func (e *Evaluator) overSlice(ctx context.Context, slice *inventory.Slice, expression string) (*verdict, error) {
	if cached := slice.Content.Verdicts.Get(expression); cached != nil {
		return cached.(*verdict), nil
	}
	v := &verdict{matches: bitset.New(len(slice.Spec.Devices))}
	program := e.compiled.GetOrCompile(expression)
	for i := range slice.Spec.Devices {
		if program.Error != nil {
			v.fail(i, &compileError{program.Error})
			continue
		}
		e.evaluations.Add(1)
		device := &slice.Spec.Devices[i]
		matches, _, err := program.DeviceMatches(ctx, cel.Device{
			Driver:                   slice.Spec.Driver,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
		})
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("evaluating selectors for slice %s: %w", slice.Name, context.Cause(ctx))
		case err != nil:
			v.fail(i, fmt.Errorf("%w: %w", ErrRuntime, cel.EnhanceRuntimeError(err)))
		case matches:
			v.matches.Add(i)
		}
	}
	return slice.Content.Verdicts.Put(expression, v).(*verdict), nil
}

func (v *verdict) fail(position int, err error) {
	if v.errors == nil {
		v.errors = make(map[int]error)
	}
	v.errors[position] = err
}

// overPool joins the verdicts of the slices that the pool's devices come from. It
// leaves out slices without any of the wanted devices.
func (e *Evaluator) overPool(ctx context.Context, pool *inventory.NodePool, expression string, wanted bitset.Set) (*verdict, error) {
	joined := &verdict{matches: bitset.New(len(pool.Devices))}
	for start := 0; start < len(pool.Devices); {
		slice := pool.Devices[start].Slice
		end := start + len(slice.Spec.Devices)
		if next := wanted.Next(start); next < 0 || next >= end {
			start = end
			continue
		}
		v, err := e.overSlice(ctx, slice, expression)
		if err != nil {
			return nil, err
		}
		if len(pool.Devices) == len(slice.Spec.Devices) {
			return v, nil // The only slice with devices: share its verdict.
		}
		for i := range v.matches.All() {
			joined.matches.Add(start + i)
		}
		for i, err := range v.errors {
			joined.fail(start+i, err)
		}
		start = end
	}
	return joined, nil
}
