package quantity_test

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// randomQuantity covers all magnitudes and both representations that quantities have.
func randomQuantity(rng *rand.Rand) resource.Quantity {
	sign := []string{"", "-"}[rng.Intn(2)]
	suffix := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti"}[rng.Intn(14)]
	digits := fmt.Sprint(rng.Int63n(1 << rng.Intn(26)))
	if rng.Intn(3) == 0 {
		digits += fmt.Sprintf(".%d", rng.Intn(1000))
	}
	return resource.MustParse(sign + digits + suffix)
}

func TestSameAsQuantity(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 20_000 {
		a, b := randomQuantity(rng), randomQuantity(rng)
		x, y := quantity.Of(a), quantity.Of(b)
		require.Equal(t, a.Cmp(b) >= 0, x.Covers(y), "%s >= %s", a.String(), b.String())
		require.Equal(t, a.Sign() < 0, x.IsNegative(), a.String())
		sum, difference := a.DeepCopy(), a.DeepCopy()
		sum.Add(b)
		difference.Sub(b)
		require.Equal(t, quantity.Of(sum), x.Plus(y), "%s + %s", a.String(), b.String())
		require.Equal(t, quantity.Of(difference), x.Minus(y), "%s - %s", a.String(), b.String())
		back := x.Quantity(a.Format)
		require.Zero(t, back.Cmp(a), "%s became %s", a.String(), back.String())
	}
}

func TestBeyondTheLimit(t *testing.T) {
	huge, larger := quantity.Of(resource.MustParse("1e30")), quantity.Of(resource.MustParse("1e40"))
	require.Equal(t, huge, larger)
	require.True(t, huge.Covers(quantity.Of(resource.MustParse("1e25"))))
	require.True(t, quantity.Of(resource.MustParse("-1e30")).IsNegative())
	sum := huge
	for range 1000 {
		sum = sum.Plus(huge)
	}
	require.False(t, sum.IsNegative())
}

func TestFloat(t *testing.T) {
	for _, text := range []string{"0", "1", "0.5", "80Gi", "1e25", "1n"} {
		q := resource.MustParse(text)
		want := q.AsApproximateFloat64()
		require.InDelta(t, want, quantity.Of(q).Float(), 1e-12*math.Abs(want), text)
	}
}

// TestEndless: no code calculates the digits of a number with a billion digits.
func TestEndless(t *testing.T) {
	endless, negative, limit := resource.MustParse("1e999999999"), resource.MustParse("-3e999999999"), quantity.Of(resource.MustParse("1e30"))
	require.Equal(t, limit, quantity.Of(endless))
	require.Equal(t, quantity.Amount{}.Minus(limit), quantity.Of(negative))
	require.Zero(t, quantity.Of(resource.MustParse("0e999999999")))
	for _, q := range []resource.Quantity{endless, negative, resource.MustParse("0e999999999")} {
		require.False(t, quantity.Countable(q))
		bounded := quantity.Bounded(q)
		require.Equal(t, quantity.Of(q), quantity.Of(bounded))
		require.True(t, quantity.Countable(bounded))
	}
	for _, countable := range []string{"0", "1e26", "1e60", "5Gi", "1n", "12345678901234567890123", "0.000000001"} {
		q := resource.MustParse(countable)
		require.True(t, quantity.Countable(q), countable)
		require.Equal(t, q, quantity.Bounded(q))
	}
}

func TestTimes(t *testing.T) {
	left, needed := quantity.Of(resource.MustParse("132")), quantity.Of(resource.MustParse("60"))
	require.Equal(t, 2, left.Times(needed, 10))
	require.Equal(t, 1, left.Times(needed, 1))
	require.Equal(t, 0, needed.Times(left, 10))
}
