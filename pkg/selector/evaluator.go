package selector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

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
//
// It evaluates at once, however long that takes, unless the context has a Budget: then
// what takes long is left to the background, and the answer is Pending until that is
// done.
type Evaluator struct {
	compiled    *cel.Cache
	languages   []Language
	evaluations atomic.Uint64
	// matches evaluates a compiled expression for a device.
	matches func(context.Context, *cel.CompilationResult, cel.Device) (bool, error)
	// overdue is how many evaluations go on of those that nobody waits for any more.
	overdue    atomic.Int32
	background background
}

// NewEvaluator returns an evaluator that compiles with the given cache, except for what is
// in one of the other languages. Verdicts are cached by expression, so all evaluators
// that see the same pools must support the same CEL features and languages.
func NewEvaluator(compiled *cel.Cache, others ...Language) *Evaluator {
	e := &Evaluator{compiled: compiled, languages: others, matches: matches}
	e.background = newBackground(e.step)
	return e
}

func matches(ctx context.Context, program *cel.CompilationResult, device cel.Device) (bool, error) {
	result, _, err := program.DeviceMatches(ctx, device)
	return result, err
}

// Evaluations returns how often an expression was evaluated for a device so far.
func (e *Evaluator) Evaluations() uint64 { return e.evaluations.Load() }

// verdict is the outcome of one expression for a list of devices.
type verdict struct {
	matches bitset.Set
	errors  map[int]error // by position of the device; wraps ErrCompile or ErrRuntime
}

// overSlice evaluates an expression for all devices of a slice. It fails only if
// the context ends or the verdict is Pending.
func (e *Evaluator) overSlice(ctx context.Context, slice *inventory.Slice, expression string) (*verdict, error) {
	if cached := slice.Content.Verdicts.Get(expression); cached != nil {
		return cached.(*verdict), nil
	}
	j := &judgement{slice: slice, expression: expression}
	if budget := budgetOf(ctx); budget != nil {
		return e.within(ctx, budget, j)
	}
	if err := e.finish(ctx, j); err != nil {
		return nil, err
	}
	return j.keep(), nil
}

// judgement is an expression on its way through the devices of a slice.
type judgement struct {
	slice      *inventory.Slice
	expression string
	// program and verdict are set by the first step.
	program program
	verdict *verdict
	next    int           // device
	took    time.Duration // in the background
}

func (j *judgement) done() bool { return j.verdict != nil && j.next >= len(j.slice.Spec.Devices) }

// lookUp takes over a verdict that is stored, if there is one and none was begun.
func (j *judgement) lookUp() {
	if cached := j.slice.Content.Verdicts.Get(j.expression); cached != nil && j.verdict == nil {
		j.verdict, j.next = cached.(*verdict), len(j.slice.Spec.Devices)
	}
}

// keep stores the verdict where it is found from now on.
func (j *judgement) keep() *verdict {
	return j.slice.Content.Verdicts.Put(j.expression, j.verdict).(*verdict)
}

// finish takes all steps that are left. It fails only if the context ends.
func (e *Evaluator) finish(ctx context.Context, j *judgement) error {
	for !j.done() {
		if err := e.step(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// step evaluates the expression for the next device. It fails only if the context ends,
// and then changes nothing.
func (e *Evaluator) step(ctx context.Context, j *judgement) error {
	if j.verdict == nil {
		j.program, j.verdict = e.compile(j.expression), &verdict{matches: bitset.New(len(j.slice.Spec.Devices))}
	}
	if j.done() {
		return nil
	}
	if j.program.err != nil {
		j.verdict.fail(j.next, &compileError{j.program.err})
		j.next++
		return nil
	}
	e.evaluations.Add(1)
	device := &j.slice.Spec.Devices[j.next]
	matches, err := e.evaluate(ctx, j.program, cel.Device{
		Driver:                   j.slice.Spec.Driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
	})
	switch {
	case ctx.Err() != nil:
		// Whatever the result is, it may come from the interruption.
		return fmt.Errorf("evaluating selectors for slice %s: %w", j.slice.Name, context.Cause(ctx))
	case err != nil:
		j.verdict.fail(j.next, fmt.Errorf("%w: %w", ErrRuntime, cel.EnhanceRuntimeError(err)))
	case matches:
		j.verdict.matches.Add(j.next)
	}
	j.next++
	return nil
}

func (v *verdict) fail(position int, err error) {
	if v.errors == nil {
		v.errors = make(map[int]error)
	}
	v.errors[position] = err
}

// overPool joins the verdicts of the slices that the pool's devices come from. It
// leaves out slices without any of the wanted devices. If the verdict for a slice is
// Pending, it asks for the others all the same, so that they are judged as well.
func (e *Evaluator) overPool(ctx context.Context, pool *inventory.NodePool, expression string, wanted bitset.Set) (*verdict, error) {
	joined := &verdict{matches: bitset.New(len(pool.Devices))}
	var pending error
	for start := 0; start < len(pool.Devices); {
		slice := pool.Devices[start].Slice
		end := start + len(slice.Spec.Devices)
		if next := wanted.Next(start); next < 0 || next >= end {
			start = end
			continue
		}
		v, err := e.overSlice(ctx, slice, expression)
		switch {
		case errors.Is(err, ErrPending):
			pending, start = err, end
			continue
		case err != nil:
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
	if pending != nil {
		return nil, pending
	}
	return joined, nil
}
