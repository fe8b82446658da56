package selector

import (
	"context"
	"errors"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/keymutex"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// An Evaluator evaluates CEL expressions over pools. It is safe for concurrent use.
//
// It evaluates synchronously, however long that takes, unless the context has a Budget. With a Budget it
// leaves slow expressions to the background, and returns a Pending until their verdicts are known.
type Evaluator struct {
	compiled  Compiler
	memory    *memo.Memory
	languages []Language
	looks     *Looks        // nil if verdicts are remembered by Content only
	programs  *memo.Subject // subject of the remembered programs, nil if programs are not remembered
	// compiling makes concurrent callers with the same expression compile it once.
	compiling   keymutex.KeyMutex
	evaluations atomic.Uint64
	// matches and derive evaluate a compiled expression for a device.
	matches func(context.Context, *cel.CompilationResult, cel.Device) (bool, error)
	derive  func(context.Context, *cel.CompilationResult, cel.Device) (*resourceapi.DeviceAttribute, error)
	// overdue is the number of evaluations in progress that their callers gave up.
	overdue    atomic.Int32
	background background
}

// NewEvaluator returns an evaluator with the given compiler, and with other languages for expressions outside
// v1. Verdicts are remembered by expression, so all evaluators that see the same pools must support the same
// CEL features and languages.
func NewEvaluator(compiled Compiler, others ...Language) *Evaluator {
	e := &Evaluator{compiled: compiled, memory: memo.Shared, languages: others, matches: matches, derive: deriveAttribute,
		compiling: keymutex.NewHashed(0)}
	e.background = newBackground(e)
	return e
}

// RememberIn replaces the evaluator's memory, memo.Shared. The evaluator must not be in use yet.
func (e *Evaluator) RememberIn(memory *memo.Memory) { e.memory = memory }

// RememberLooks makes the evaluator evaluate expressions only once for devices that look the same. The
// evaluator must not be in use yet.
func (e *Evaluator) RememberLooks(looks *Looks) { e.looks = looks }

// Memory returns the memory for everything that depends on users' requests.
func (e *Evaluator) Memory() *memo.Memory { return e.memory }

func matches(ctx context.Context, program *cel.CompilationResult, device cel.Device) (bool, error) {
	result, _, err := program.DeviceMatches(ctx, device)
	return result, err
}

// Evaluations returns the number of evaluations of an expression for a device so far.
func (e *Evaluator) Evaluations() uint64 { return e.evaluations.Load() }

// overSlice evaluates an expression for all devices of a slice. It fails only if
// the context ends or the verdict is Pending.
func (e *Evaluator) overSlice(ctx context.Context, slice *inventory.Slice, expression string) (*Selection, error) {
	q := question{expression: expression}
	if sheet := q.selections(e.memory); sheet != nil {
		if known, found := sheet.Get(&slice.Content.Subject); found {
			return known, nil
		}
	}
	j := &judgement{slice: slice, question: q}
	if err := e.judge(ctx, j); err != nil {
		return nil, err
	}
	return e.keepSelection(j), nil
}

// judge finishes a judgement, or leaves it to the background and returns a Pending.
func (e *Evaluator) judge(ctx context.Context, j *judgement) error {
	if budget := budgetOf(ctx); budget != nil {
		return e.within(ctx, budget, j)
	}
	return e.finish(ctx, j)
}

// finish takes all remaining steps. It fails only if the context ends.
func (e *Evaluator) finish(ctx context.Context, j *judgement) error {
	for !j.done() {
		if err := e.step(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// overPool joins the verdicts of the slices that the pool's devices come from. It skips slices without any of
// the wanted devices. If the verdict for a slice is Pending, it still asks for the others, so that they are
// evaluated as well.
func (e *Evaluator) overPool(ctx context.Context, pool *inventory.NodePool, expression string, wanted bitset.Set) (*Selection, error) {
	joined := newSelection(len(pool.Devices), false)
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
		for i := range v.Matches.All() {
			joined.Matches.Add(start + i)
		}
		for i := range v.Failed.All() {
			joined.fail(start+i, len(pool.Devices), v.failureOf(i))
		}
		start = end
	}
	if pending != nil {
		return nil, pending
	}
	return joined, nil
}
