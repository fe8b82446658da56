package selector

import (
	"context"

	"k8s.io/dynamic-resource-allocation/cel"
)

// Language compiles expressions that are not for the CEL environment of v1: those of older
// versions of the API see devices with other variables.
type Language interface {
	// Compile reports whether the expression is in this language. If it is, there is
	// either a program or an error.
	Compile(expression string) (program Program, is bool, err error)
}

// Program reports whether a device matches. Errors that say nothing about the device, but
// that the context has ended, need not be told from others.
type Program func(context.Context, cel.Device) (bool, error)

// program is a compiled expression, or why it is none.
type program struct {
	v1    *cel.CompilationResult
	other Program // nil if the expression is for v1
	err   error   // a compileError
}

func (e *Evaluator) compile(expression string) program {
	for _, language := range e.languages {
		if other, is, err := language.Compile(expression); is {
			if err != nil {
				return program{err: newCompileError(err)}
			}
			return program{other: other}
		}
	}
	compiled := e.compiled.GetOrCompile(expression)
	if compiled.Error != nil {
		return program{err: newCompileError(compiled.Error)}
	}
	return program{v1: &compiled}
}

func (e *Evaluator) evaluate(ctx context.Context, p program, device cel.Device) (bool, error) {
	if p.other != nil {
		return p.other(ctx, device)
	}
	return e.matches(ctx, p.v1, device)
}
