package webhook

import (
	"errors"
	"regexp"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// resource.Quantity takes hours to parse the quantity 1e-999999999, and cannot be interrupted. An API server would
// have to parse it before it asks, but another client of the port would not. So quantities are checked as text before
// decoding. Quantities that a tenant can write into a claim without blocking the API server are accepted, for example
// 1e999999999: with failurePolicy Ignore, a review that fails would let the allocation pass.

// suspicious matches text that could be such a quantity. Most objects contain none, and the search takes
// microseconds.
var suspicious = regexp.MustCompile(`[0-9.][eE][+-]?[0-9]{4}|[0-9.]{1000}`)

// checkQuantities returns an error if a claim of a version has a quantity that takes long to parse. It ignores
// invalid JSON, which decoding reports.
func checkQuantities(version api.Version, data []byte) error {
	if !suspicious.Match(data) {
		return nil
	}
	if err := quantity.CheckJSON(data, api.ClaimType(version), quantity.TakesLong); errors.Is(err, quantity.ErrEndless) {
		return err
	}
	return nil
}
