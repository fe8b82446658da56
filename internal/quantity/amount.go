// Package quantity holds numbers for quantities that are often compared and added, namely the counters of a
// pool. An operation takes a few nanoseconds; resource.Quantity, in a map, takes a hundred.
//
// The package also compares, reads and refuses quantities from untrusted writers, in a time that does not
// depend on the number of digits of the value.
package quantity

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

// An Amount is a number of billionths, the smallest unit of a quantity in the API. It is exact up to 10^26;
// larger values count as 10^26. The zero value is 0.
type Amount struct {
	hi int64
	lo uint64
}

const (
	perUnit = 1_000_000_000
	// decimals is the number of decimal places of a billionth.
	decimals = 9
)

// mostDigits limits the digits before and after the point of quantities that are calculated with. Any author
// of a quantity can write 1e999999999, with which resource.Quantity calculates for hours.
const mostDigits = 64

// Countable reports whether a quantity is safe to calculate with, see mostDigits.
func Countable(q resource.Quantity) bool {
	if q.Sign() != 0 { // See Of.
		if _, ok := q.AsInt64(); ok {
			return true // By far the most common case; it copies nothing.
		}
	}
	copied := q.DeepCopy()
	scale := copied.AsDec().Scale()
	return scale >= -mostDigits && scale <= mostDigits
}

// Bounded returns a quantity that is safe to calculate with: the given one, or the nearest Amount in its place.
func Bounded(q resource.Quantity) resource.Quantity {
	if Countable(q) {
		return q
	}
	return Of(q).Quantity(q.Format)
}

// limit, in billionths, leaves room to add a thousand amounts without overflow.
var limit = new(big.Int).Exp(big.NewInt(10), big.NewInt(26+decimals), nil)

// Of returns the amount of a quantity.
func Of(q resource.Quantity) Amount {
	if q.Sign() == 0 {
		return Amount{} // AsInt64 counts the zeros of 0e999999999.
	}
	if units, ok := q.AsInt64(); ok {
		return ofUnits(units)
	}
	copied := q.DeepCopy()
	dec := copied.AsDec()
	n := new(big.Int).Set(dec.UnscaledBig())
	switch {
	case dec.Scale() > mostDigits:
		return Amount{}
	case dec.Scale() < -mostDigits:
		return ofBig(n.Mul(limit, big.NewInt(int64(n.Sign()))))
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(decimals-dec.Scale(), dec.Scale()-decimals))), nil)
	if dec.Scale() <= decimals {
		n.Mul(n, power)
	} else {
		n.Quo(n, power)
	}
	return ofBig(n)
}

func ofUnits(units int64) Amount {
	magnitude := uint64(units)
	if units < 0 {
		magnitude = -magnitude
	}
	hi, lo := bits.Mul64(magnitude, perUnit)
	a := Amount{int64(hi), lo}
	if units < 0 {
		return Amount{}.Minus(a)
	}
	return a
}

func ofBig(n *big.Int) Amount {
	magnitude := new(big.Int).Abs(n)
	if magnitude.Cmp(limit) > 0 {
		magnitude = limit
	}
	lo := new(big.Int).And(magnitude, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	a := Amount{new(big.Int).Rsh(magnitude, 64).Int64(), lo}
	if n.Sign() < 0 {
		return Amount{}.Minus(a)
	}
	return a
}

// Plus returns a + b.
func (a Amount) Plus(b Amount) Amount {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return Amount{a.hi + b.hi + int64(carry), lo}
}

// Minus returns a - b.
func (a Amount) Minus(b Amount) Amount {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	return Amount{a.hi - b.hi - int64(borrow), lo}
}

// Covers reports whether a >= b.
func (a Amount) Covers(b Amount) bool {
	return a.hi > b.hi || a.hi == b.hi && a.lo >= b.lo
}

// IsNegative reports whether a < 0.
func (a Amount) IsNegative() bool { return a.hi < 0 }

// Times returns how often b can be subtracted from a, at most most times. Neither may be negative, and b must
// not be zero.
func (a Amount) Times(b Amount, most int) int {
	n := 0
	for ; n < most && a.Covers(b); n++ {
		a = a.Minus(b)
	}
	return n
}

// AppendTo appends the amount in a form of fixed length. Equal amounts have equal forms.
func (a Amount) AppendTo(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, uint64(a.hi)), a.lo)
}

// Float returns the approximate number of units, for fractions of a whole. It is less exact for negative
// amounts.
func (a Amount) Float() float64 {
	return (float64(a.hi)*(1<<64) + float64(a.lo)) / perUnit
}

// Quantity returns the amount as a quantity of the API.
func (a Amount) Quantity(format resource.Format) resource.Quantity {
	n := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	n.Add(n, new(big.Int).SetUint64(a.lo))
	return *resource.NewDecimalQuantity(*inf.NewDecBig(n, decimals), format)
}
