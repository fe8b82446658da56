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

// Errors are remembered. Therefore they hold only a text of limited length: everything else that a CEL error
// refers to can be freed.

// compileError is the text of an error for an invalid expression. It is an ErrCompile.
type compileError string

// newCompileError returns the compiler's message without the lines that repeat the expression and point into
// it. The first line gives the position as line:column anyway.
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

// runtimeError is the text of an error for an expression that failed on a device. It is an ErrRuntime.
type runtimeError string

func newRuntimeError(cause error) error {
	return runtimeError(shortened(cel.EnhanceRuntimeError(cause).Error()))
}

func (e runtimeError) Error() string { return ErrRuntime.Error() + ": " + string(e) }

func (e runtimeError) Unwrap() error { return ErrRuntime }

// manyErrors returns the error for all further devices on which an expression fails, after it failed in too
// many different ways.
func manyErrors() error {
	return runtimeError("it fails on different devices in too many different ways to tell them all")
}

// maxErrorText limits the bytes of an error's text.
const maxErrorText = 1024

func shortened(text string) string {
	if len(text) <= maxErrorText {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "…"
}
