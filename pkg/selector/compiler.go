package selector

import "k8s.io/dynamic-resource-allocation/cel"

// A Compiler compiles expressions of v1. A *cel.Cache is a Compiler; it caches a fixed number of results,
// regardless of their size.
type Compiler interface {
	GetOrCompile(expression string) cel.CompilationResult
	GetOrCompileDerivedAttribute(expression string) cel.CompilationResult
}

// NewCompiler returns a Compiler that caches nothing, for evaluators that remember programs. A program can be
// large: a regular expression of a few kilobytes can take a hundred megabytes.
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
