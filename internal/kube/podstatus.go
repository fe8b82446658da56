package kube

import (
	"fmt"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// New returns a status with a reason.
func New(code fwk.Code, reason string) *fwk.Status { return fwk.NewStatus(code, Text(reason)) }

// Newf works like New, with a format.
func Newf(code fwk.Code, format string, args ...any) *fwk.Status {
	return New(code, fmt.Sprintf(format, args...))
}

// Of returns a status with an error as its reason. The text is only computed when it is read.
func Of(code fwk.Code, err error) *fwk.Status {
	if _, is := err.(interface{ hasNoCommas() }); !is {
		err = told{err}
	}
	return fwk.NewStatus(code).WithError(err)
}

// Lazy is a reason whose text is computed when it is read. Of uses it without wrapping: the scheduling queue needs
// many.
type Lazy func() string

func (l Lazy) Error() string { return Text(l()) }

// hasNoCommas also marks types that embed Lazy.
func (Lazy) hasNoCommas() {}

// Failed returns the status for an internal error, nil without an error.
func Failed(err error) *fwk.Status {
	if err == nil {
		return nil
	}
	return fwk.AsStatus(told{err})
}

// Append adds a reason.
func Append(status *fwk.Status, reason string) { status.AppendReason(Text(reason)) }

// Recoded returns the reasons of a status, unchanged, with another code. They may be kube-scheduler's, which joins
// counts by commas.
func Recoded(code fwk.Code, status *fwk.Status) *fwk.Status {
	return fwk.NewStatus(code, status.Reasons()...)
}

// Text returns a reason without commas.
func Text(reason string) string { return strings.ReplaceAll(reason, ",", ";") }

// told is an error whose text has no commas.
type told struct{ error }

func (t told) Error() string { return Text(t.error.Error()) }

func (t told) Unwrap() error { return t.error }
