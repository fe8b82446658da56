package selector

import (
	"context"
	"hash/maphash"

	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/recall"
)

// program is a compiled expression, or why it is none. It is immutable.
type program struct {
	text  string
	v1    *cel.CompilationResult
	other Program // nil if the expression is for v1
	err   error   // a compileError
}

// Kinds of programs in the memory: expressions that select are compiled in another way
// than those that derive attributes.
const (
	compiledToSelect recall.Kind = "compiled to select"
	compiledToDerive recall.Kind = "compiled to derive"
)

// What a program takes is not told by CEL. These are bounds of what was measured for short
// expressions, and for long ones of all kinds.
const (
	programSize        = 16 << 10
	programSizePerByte = 90
)

// RememberPrograms has the evaluator keep compiled expressions in its memory, and with them
// what is wrong with those that do not compile. Otherwise they are kept by the cache of
// NewEvaluator, which bounds their number and not their size. It must not be in use yet.
func (e *Evaluator) RememberPrograms() { e.programs = new(recall.Subject) }

// compile returns the program that selects devices by an expression.
func (e *Evaluator) compile(expression string) *program {
	return e.program(compiledToSelect, expression, e.compileSelector)
}

// compileDerived returns the program that derives an attribute.
func (e *Evaluator) compileDerived(expression string) *program {
	return e.program(compiledToDerive, expression, func(expression string) program {
		return programOf(e.compiled.GetOrCompileDerivedAttribute(expression))
	})
}

func (e *Evaluator) program(kind recall.Kind, expression string, compile func(string) program) *program {
	q := recall.Question{Kind: kind, Text: expression}
	if e.programs != nil {
		if sheet := recall.Find[*program](e.memory, q); sheet != nil {
			if known, found := sheet.Get(e.programs); found {
				return known
			}
		}
	}
	fresh := compile(expression)
	fresh.text = expression
	if e.programs == nil {
		return &fresh
	}
	return recall.Open[*program](e.memory, q).Put(e.programs, &fresh)
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
	return programOf(e.compiled.GetOrCompile(expression))
}

func programOf(compiled cel.CompilationResult) program {
	if compiled.Error != nil {
		return program{err: newCompileError(compiled.Error)}
	}
	return program{v1: &compiled}
}

// run asks a program about a device.
func (e *Evaluator) run(ctx context.Context, p *program, device *cel.Device) (bool, error) {
	if p.other != nil {
		return p.other(ctx, *device)
	}
	return e.matches(ctx, p.v1, *device)
}

// Alike implements recall.Finding: what an expression is compiled to follows from its text.
func (p *program) Alike(other *program) bool { return p.text == other.text }

// Hash implements recall.Finding.
func (p *program) Hash() uint64 { return maphash.String(seed, p.text) }

// Size implements recall.Finding.
func (p *program) Size() int {
	if p.err != nil {
		return programSizePerByte + len(p.err.Error())
	}
	return programSize + programSizePerByte*len(p.text)
}
