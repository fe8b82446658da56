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
