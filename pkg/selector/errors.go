package selector

import (
	"errors"
	"strings"

	"k8s.io/dynamic-resource-allocation/cel"
)

var (
	// ErrCompile marks a selector that is no valid CEL expression for devices.
	ErrCompile = errors.New("CEL compile error")
	// ErrRuntime marks a selector that could not be evaluated for a device, often
	// because it reads an attribute that the device does not have, or because it
	// exceeded the cost limit.
	ErrRuntime = errors.New("CEL runtime error")
)

// Errors are remembered. So they are texts only: whatever else an error of CEL refers to
// can be freed, and nobody can write a text of any length.

// compileError is an expression that is none. It is an ErrCompile.
type compileError string

// newCompileError takes what the compiler says, without the lines in which it repeats the
// expression to point into it. The first gives the position as line:column anyway.
func newCompileError(cause error) error {
	var said []string
	for line := range strings.Lines(strings.TrimPrefix(cause.Error(), "compilation failed: ")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") {
			said = append(said, strings.TrimPrefix(line, "ERROR: <input>:"))
		}
	}
	return compileError(shortened(strings.Join(said, "; ")))
}

func (e compileError) Error() string { return ErrCompile.Error() + ": " + string(e) }

func (e compileError) Unwrap() error { return ErrCompile }

// runtimeError is an expression that failed on a device. It is an ErrRuntime.
type runtimeError string

func newRuntimeError(cause error) error {
	return runtimeError(shortened(cel.EnhanceRuntimeError(cause).Error()))
}

func (e runtimeError) Error() string { return ErrRuntime.Error() + ": " + string(e) }

func (e runtimeError) Unwrap() error { return ErrRuntime }

// manyErrors is for devices on which an expression fails in other ways than on those before
// them, once these were many.
func manyErrors() error {
	return runtimeError("it fails on different devices in too many different ways to tell them all")
}

// maxErrorText is how many bytes of an error are told.
const maxErrorText = 1024

func shortened(text string) string {
	if len(text) <= maxErrorText {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}
