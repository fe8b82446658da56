package devicescmd

import (
	"errors"

	"github.com/quartermaster-dra/quartermaster/internal/devicescmd/screen"
)

// Exit statuses beside 0.
const (
	// ExitNo means that the answer is no: it does not fit, or something is wrong that was asked for.
	ExitNo = 1
	// ExitCannotTell means that the question could not be answered: also if the cluster cannot be reached.
	ExitCannotTell = 2
)

// statusError ends a command that has said all that there is to say.
type statusError struct{ status int }

func (e statusError) Error() string { return "" }

// StatusOf returns the exit status for an error of a command, and what is to be printed of it.
func StatusOf(err error) (status int, text string) {
	if err == nil {
		return 0, ""
	}
	if s := (statusError{}); errors.As(err, &s) {
		return s.status, ""
	}
	return ExitCannotTell, screen.Clean(err.Error())
}
