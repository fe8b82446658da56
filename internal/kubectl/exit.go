package kubectl

import (
	"errors"

	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
)

// Exit statuses other than 0.
const (
	// ExitNo means that the answer is no: the pod does not fit, or the command found the problem that the user asked
	// about.
	ExitNo = 1
	// ExitCannotTell means that the command could not answer, for example because the cluster is unreachable.
	ExitCannotTell = 2
)

// statusError ends a command that has already printed its result.
type statusError struct{ status int }

func (e statusError) Error() string { return "" }

// StatusOf returns the exit status for an error of a command, and the text to print.
func StatusOf(err error) (status int, text string) {
	if err == nil {
		return 0, ""
	}
	if s := (statusError{}); errors.As(err, &s) {
		return s.status, ""
	}
	return ExitCannotTell, screen.Clean(err.Error())
}
