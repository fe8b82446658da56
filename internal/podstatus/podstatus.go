// Package podstatus makes the statuses of this project's plugins. Their reasons have no commas: kube-scheduler joins the reasons of
// nodes by commas, and what users write into expressions and names would look like the next reason.
package podstatus

import (
	"fmt"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// New is a status with a reason.
func New(code fwk.Code, reason string) *fwk.Status { return fwk.NewStatus(code, Text(reason)) }

// Newf is New with a format.
func Newf(code fwk.Code, format string, args ...any) *fwk.Status {
	return New(code, fmt.Sprintf(format, args...))
}

// Of is a status with an error as its reason. The text is made when somebody reads it.
func Of(code fwk.Code, err error) *fwk.Status {
	if _, is := err.(interface{ hasNoCommas() }); !is {
		err = told{err}
	}
	return fwk.NewStatus(code).WithError(err)
}

// Lazy is a reason whose text is made when somebody reads it. Of takes it as it is: the scheduling queue asks for many.
type Lazy func() string

func (l Lazy) Error() string { return Text(l()) }

// hasNoCommas is also that of what embeds it.
func (Lazy) hasNoCommas() {}

// Failed is the status after something went wrong, nil without an error.
func Failed(err error) *fwk.Status {
	if err == nil {
		return nil
	}
	return fwk.AsStatus(told{err})
}

// Append adds a reason.
func Append(status *fwk.Status, reason string) { status.AppendReason(Text(reason)) }

// Recoded has the reasons of a status, as they are, with another code. They may be kube-scheduler's, which joins counts by commas.
func Recoded(code fwk.Code, status *fwk.Status) *fwk.Status {
	return fwk.NewStatus(code, status.Reasons()...)
}

// Text is a reason without commas.
func Text(reason string) string { return strings.ReplaceAll(reason, ",", ";") }

// told is an error in the words of a status.
type told struct{ error }

func (t told) Error() string { return Text(t.error.Error()) }

func (t told) Unwrap() error { return t.error }
