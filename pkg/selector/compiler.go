package selector

import "k8s.io/dynamic-resource-allocation/cel"

// Compiler compiles expressions of v1. A *cel.Cache is one that keeps some of the results, whatever these take.
type Compiler interface {
	GetOrCompile(expression string) cel.CompilationResult
	GetOrCompileDerivedAttribute(expression string) cel.CompilationResult
}

// NewCompiler returns a Compiler that keeps nothing, for evaluators that remember programs: a regular expression in a few
// kilobytes of text can take a hundred megabytes.
func NewCompiler(features cel.Features) Compiler { return keepsNothing{cel.GetCompiler(features)} }

type keepsNothing struct {
	compiler interface {
		CompileCELExpression(expression string, options cel.Options) cel.CompilationResult
	}
}

func (k keepsNothing) GetOrCompile(expression string) cel.CompilationResult {
	return k.compiler.CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
}

func (k keepsNothing) GetOrCompileDerivedAttribute(expression string) cel.CompilationResult {
	return k.compiler.CompileCELExpression(expression, cel.Options{DisableCostEstimation: true, DerivedAttribute: true})
}
