package selector

import (
	"context"

	"k8s.io/dynamic-resource-allocation/cel"
)

// A Language compiles expressions that are not for the CEL environment of v1. Expressions of older API
// versions see devices with other variables.
type Language interface {
	// Compile reports whether the expression is in this language. If it is, Compile returns either a program or an error.
	Compile(expression string) (program Program, is bool, err error)
}

// A Program reports whether a device matches. It may return any error after the context has ended.
type Program func(context.Context, cel.Device) (bool, error)
