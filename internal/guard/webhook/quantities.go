package webhook

import (
	"errors"
	"regexp"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
)

// To parse the quantity 1e-999999999 takes resource.Quantity hours, in which nobody can interrupt
// it. An API server would have to have parsed it before it asks; whoever else reaches the port
// need not. So quantities are looked at as text before they are decoded. Those that a tenant can write into a
// claim without keeping the API server busy, such as 1e999999999, are read: what is not, passes with
// failurePolicy Ignore.

// suspicious are texts and numbers that would be such a quantity if they were one. Most often
// there is nothing like that, and looking for it costs microseconds.
var suspicious = regexp.MustCompile(`[0-9.][eE][+-]?[0-9]{4}|[0-9.]{1000}`)

// checkQuantities returns an error if a claim of a version has a quantity that takes long to parse. What is no JSON has
// none: whoever decodes that says what is wrong.
func checkQuantities(version apiversions.Version, data []byte) error {
	if !suspicious.Match(data) {
		return nil
	}
	if err := amount.CheckJSON(data, apiversions.ClaimType(version), amount.TakesLong); errors.Is(err, amount.ErrEndless) {
		return err
	}
	return nil
}
