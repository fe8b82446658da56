package amount

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

// semantic compares objects as the API does, without working out the digits of quantities.
var semantic = func() interface{ DeepEqual(a, b any) bool } {
	equalities := apiequality.Semantic.Copy()
	if err := equalities.AddFunc(Equal); err != nil {
		panic(err) // Cannot be: Equal is a function of two values of one type.
	}
	return equalities
}()

// DeepEqual is apiequality.Semantic.DeepEqual for objects that may contain quantities.
func DeepEqual(a, b any) bool { return semantic.DeepEqual(a, b) }

// Equal reports whether two quantities are the same number, whatever their formats are.
func Equal(a, b resource.Quantity) bool { return Compare(a, b) == 0 }

// Compare is Cmp in time that depends on the digits that are written, not on those of the number. It is exact.
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

// compareMagnitudes of numbers that are not zero. Those with as many digits before the point differ in their scales by
// no more than they have digits.
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

// Sum returns a + b. The limit of an Amount takes the place of what is not countable.
func Sum(a, b resource.Quantity) resource.Quantity {
	sum := Bounded(a).DeepCopy()
	sum.Add(Bounded(b))
	return sum
}

// Difference returns a - b. The limit of an Amount takes the place of what is not countable.
func Difference(a, b resource.Quantity) resource.Quantity {
	difference := Bounded(a).DeepCopy()
	difference.Sub(Bounded(b))
	return difference
}

// Float returns about how many units a quantity is. The limit of an Amount takes the place of what is not countable.
func Float(q resource.Quantity) float64 {
	bounded := Bounded(q)
	return bounded.AsApproximateFloat64()
}

// Parse is resource.ParseQuantity for the text of somebody else: it refuses what takes long to parse.
func Parse(text string) (resource.Quantity, error) {
	if IsEndless(text) {
		return resource.Quantity{}, ErrEndless
	}
	return resource.ParseQuantity(text)
}

// Value is q.Value.
func Value(q resource.Quantity) int64 {
	if Countable(q) {
		return q.Value()
	}
	return beyond(q)
}

// MilliValue is q.MilliValue.
func MilliValue(q resource.Quantity) int64 {
	if Countable(q) {
		return q.MilliValue()
	}
	return beyond(q)
}

// beyond takes the place of Value and MilliValue for a quantity that is not countable. Next to nothing is rounded up, and
// a number with too many digits counts as 0, as resource.Quantity says of those that end with 64 zero bits: kube-scheduler's
// filters use that as well.
func beyond(q resource.Quantity) int64 {
	if copied := q.DeepCopy(); copied.AsDec().Scale() > 0 {
		return int64(max(q.Sign(), 0))
	}
	return 0
}

// MostWritten is how many digits, and which exponent, a text may have: 1e-999999999 is worked out while it is parsed.
const MostWritten = 1000

// ErrEndless is what IsEndless reports.
var ErrEndless = fmt.Errorf("a quantity has more than %d digits (written or by its exponent)", MostWritten)

// IsEndless reports whether a text may be a quantity that has too many digits.
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
		return false // A unit such as Ei, or no quantity.
	}
	exponent, err := strconv.Atoi(digits)
	return err != nil || exponent > MostWritten
}

// mostFast is how many digits a text may have with any exponent that resource.ParseQuantity only keeps.
const mostFast = 18

// TakesLong reports whether it may take long to parse a text. Of what IsEndless reports that is all but a few digits with
// an exponent above zero, such as 1e999999999. API servers accept those, so whoever is asked by one has to read them.
func TakesLong(text string) bool {
	if !IsEndless(text) {
		return false
	}
	at := max(strings.LastIndexAny(text, "eE"), 0)
	// resource.ParseQuantity takes the lowest 32 bits for the exponent, which may make it negative.
	exponent, err := strconv.ParseInt(text[min(at+1, len(text)):], 10, 32)
	return err != nil || exponent < 0 || len(strings.Trim(text[:at], "+-")) > mostFast
}
