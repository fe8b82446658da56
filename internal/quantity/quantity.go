package quantity

import (
	"cmp"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"gopkg.in/inf.v0"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// semantic compares objects as the API does, without calculating the digits of quantities.
var semantic = func() interface{ DeepEqual(a, b any) bool } {
	equalities := apiequality.Semantic.Copy()
	if err := equalities.AddFunc(Equal); err != nil {
		panic(err) // Impossible: Equal is a function of two values of one type.
	}
	return equalities
}()

// DeepEqual works like apiequality.Semantic.DeepEqual for objects that may contain quantities.
func DeepEqual(a, b any) bool { return semantic.DeepEqual(a, b) }

// Equal reports whether two quantities are the same number, regardless of their formats.
func Equal(a, b resource.Quantity) bool { return Compare(a, b) == 0 }

// Compare works like Quantity.Cmp, in a time that depends on the written digits, not on those of the number.
// It is exact.
func Compare(a, b resource.Quantity) int {
	if a.Sign() != b.Sign() || a.Sign() == 0 {
		return cmp.Compare(a.Sign(), b.Sign())
	}
	if Countable(a) && Countable(b) {
		return a.Cmp(b)
	}
	x, y := a.DeepCopy(), b.DeepCopy()
	return a.Sign() * compareMagnitudes(x.AsDec(), y.AsDec())
}

// compareMagnitudes compares the magnitudes of two numbers that are not zero. If both have equally many
// digits before the point, their scales differ by no more than their written digits, so the power of ten is
// small.
func compareMagnitudes(a, b *inf.Dec) int {
	x, y := new(big.Int).Abs(a.UnscaledBig()), new(big.Int).Abs(b.UnscaledBig())
	digits := func(n *big.Int, scale inf.Scale) int64 { return int64(len(n.String())) - int64(scale) }
	if order := cmp.Compare(digits(x, a.Scale()), digits(y, b.Scale())); order != 0 {
		return order
	}
	switch difference := int64(a.Scale()) - int64(b.Scale()); {
	case difference > 0:
		y.Mul(y, new(big.Int).Exp(big.NewInt(10), big.NewInt(difference), nil))
	case difference < 0:
		x.Mul(x, new(big.Int).Exp(big.NewInt(10), big.NewInt(-difference), nil))
	}
	return x.Cmp(y)
}

// Sum returns a + b. It bounds quantities that are not countable, see Bounded.
func Sum(a, b resource.Quantity) resource.Quantity {
	sum := Bounded(a).DeepCopy()
	sum.Add(Bounded(b))
	return sum
}

// Difference returns a - b. It bounds quantities that are not countable, see Bounded.
func Difference(a, b resource.Quantity) resource.Quantity {
	difference := Bounded(a).DeepCopy()
	difference.Sub(Bounded(b))
	return difference
}

// Product returns a * b in the format of a. It bounds quantities that are not countable, see Bounded.
func Product(a, b resource.Quantity) resource.Quantity {
	product, factor := Bounded(a).DeepCopy(), Bounded(b).DeepCopy()
	dec := product.AsDec()
	return *resource.NewDecimalQuantity(*dec.Mul(dec, factor.AsDec()), a.Format)
}

// Float returns the approximate number of units. It bounds a quantity that is not countable, see Bounded.
func Float(q resource.Quantity) float64 {
	bounded := Bounded(q)
	return bounded.AsApproximateFloat64()
}

// Parse works like resource.ParseQuantity for untrusted text: it refuses text that takes long to parse.
func Parse(text string) (resource.Quantity, error) {
	if IsEndless(text) {
		return resource.Quantity{}, ErrEndless
	}
	return resource.ParseQuantity(text)
}

// Value works like q.Value, in bounded time.
func Value(q resource.Quantity) int64 {
	if Countable(q) {
		return q.Value()
	}
	return beyond(q)
}

// MilliValue works like q.MilliValue, in bounded time.
func MilliValue(q resource.Quantity) int64 {
	if Countable(q) {
		return q.MilliValue()
	}
	return beyond(q)
}

// beyond replaces Value and MilliValue for a quantity that is not countable. It rounds tiny positive numbers
// up to 1. A number with too many digits counts as 0, as in resource.Quantity for values that end with 64
// zero bits; kube-scheduler's filters use that value as well.
func beyond(q resource.Quantity) int64 {
	if copied := q.DeepCopy(); copied.AsDec().Scale() > 0 {
		return int64(max(q.Sign(), 0))
	}
	return 0
}

// MostWritten limits the digits of a text, and its exponent: resource.ParseQuantity calculates 1e-999999999
// while it parses.
const MostWritten = 1000

// ErrEndless is the error for a text that IsEndless refuses.
var ErrEndless = fmt.Errorf("a quantity has more than %d digits (written or by its exponent)", MostWritten)

// IsEndless reports whether a text may be a quantity with too many digits.
func IsEndless(text string) bool {
	if len(text) > MostWritten {
		return true
	}
	at := strings.LastIndexAny(text, "eE")
	if at < 0 {
		return false
	}
	digits := strings.TrimLeft(text[at+1:], "+-")
	if strings.Trim(digits, "0123456789") != "" || digits == "" {
		return false // A unit like Ei, or not a quantity.
	}
	exponent, err := strconv.Atoi(digits)
	return err != nil || exponent > MostWritten
}

// mostFast is the number of digits up to which resource.ParseQuantity only stores any exponent.
const mostFast = 18

// TakesLong reports whether parsing a text may take long. It is true for all that IsEndless reports, except
// for a few digits with a positive exponent, for example 1e999999999. API servers accept those, so an
// admission webhook must be able to read them.
func TakesLong(text string) bool {
	if !IsEndless(text) {
		return false
	}
	at := max(strings.LastIndexAny(text, "eE"), 0)
	// resource.ParseQuantity takes the lowest 32 bits for the exponent, which may make it negative.
	exponent, err := strconv.ParseInt(text[min(at+1, len(text)):], 10, 32)
	return err != nil || exponent < 0 || len(strings.Trim(text[:at], "+-")) > mostFast
}
