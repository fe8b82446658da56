package selector

import (
	"context"
	"hash/maphash"

	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/boundedcel"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
)

// program is a compiled expression, or the error if it does not compile. It is immutable.
type program struct {
	v1     *cel.CompilationResult
	driver *driverTest // set for v1 expressions that select
	other  Program     // nil if the expression is for v1
	err    error       // a compileError
	size   int         // bytes
}

// Kinds of programs in the memory: selectors and derivations of attributes are compiled differently.
const (
	compiledToSelect memo.Kind = "compiled to select"
	compiledToDerive memo.Kind = "compiled to derive"
)

// Programs identifies the compiled expressions, and compile errors, that evaluators keep in their memory.
// Evaluators that share Programs must have the same compiler and languages. The memory drops the programs
// when the Programs value is garbage.
type Programs struct{ subject memo.Subject }

// RememberPrograms makes the evaluator remember compiled expressions. Otherwise only the compiler of NewEvaluator
// may keep them; a cel.Cache bounds their number, not their size. The evaluator must not be in use yet.
func (e *Evaluator) RememberPrograms(programs *Programs) { e.programs = &programs.subject }

// compile returns the program that selects devices by an expression.
func (e *Evaluator) compile(expression string) *program {
	return e.program(compiledToSelect, expression, e.compileSelector)
}

// compileDerived returns the program that derives an attribute.
func (e *Evaluator) compileDerived(expression string) *program {
	return e.program(compiledToDerive, expression, func(expression string) program {
		return programOf(boundedcel.Program(e.compiled.GetOrCompileDerivedAttribute(expression)))
	})
}

func (e *Evaluator) program(kind memo.Kind, expression string, compile func(string) program) *program {
	if e.programs == nil {
		fresh := compile(expression)
		return &fresh
	}
	remembered := memo.NewReference[*program](memo.Key{Kind: kind, Text: expression})
	if known, found := remembered.Get(e.memory, e.programs); found {
		return known
	}
	e.compiling.LockKey(expression)
	defer func() { _ = e.compiling.UnlockKey(expression) }() // UnlockKey fails only for keys that are not locked.
	if known, found := remembered.Get(e.memory, e.programs); found {
		return known
	}
	fresh := compile(expression)
	fresh.size = sizeOf(expression, &fresh)
	return remembered.Put(e.memory, e.programs, &fresh)
}

func (e *Evaluator) compileSelector(expression string) program {
	for _, language := range e.languages {
		if other, is, err := language.Compile(expression); is {
			if err != nil {
				return program{err: newCompileError(err)}
			}
			return program{other: other}
		}
	}
	selects := programOf(boundedcel.Program(e.compiled.GetOrCompile(expression)))
	if selects.v1 != nil {
		selects.driver = driverTestOf(selects.v1)
	}
	return selects
}

func programOf(compiled cel.CompilationResult) program {
	if compiled.Error != nil {
		return program{err: newCompileError(compiled.Error)}
	}
	return program{v1: &compiled}
}

// run evaluates a program for a device.
func (e *Evaluator) run(ctx context.Context, p *program, device *cel.Device) (bool, error) {
	if p.other != nil {
		return p.other(ctx, *device)
	}
	return e.matches(ctx, p.v1, *device)
}

// Alike implements memo.Finding. Different programs are never alike, because evaluators may support
// different languages.
func (p *program) Alike(other *program) bool { return p == other }

// Hash implements memo.Finding.
func (p *program) Hash() uint64 { return maphash.Comparable(seed, p) }

// Size implements memo.Finding.
func (p *program) Size() int { return p.size }
