package quantity_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/inf.v0"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// TestComparesLikeQuantity: countable quantities compare as with resource.Quantity.
func TestComparesLikeQuantity(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	for range 20_000 {
		a, b := randomQuantity(rng), randomQuantity(rng)
		require.Equal(t, a.Cmp(b), quantity.Compare(a, b), "%s and %s", a.String(), b.String())
		require.Equal(t, a.Value(), quantity.Value(a), a.String())
		require.Equal(t, a.MilliValue(), quantity.MilliValue(a), a.String())
		x, y := v1.ResourceList{"r": a}, v1.ResourceList{"r": b}
		require.Equal(t, apiequality.Semantic.DeepEqual(x, y), quantity.DeepEqual(x, y))
	}
	// Not countable, but with few enough digits for resource.Quantity.
	for _, a := range []string{"1e70", "10e69", "-1e70", "12345678901234567890e80", "1234567890123456789e81", "0", "1", "0e70"} {
		for _, b := range []string{"1e70", "1.5e70", "-2e71", "12345678901234567890e80", "1234567890123456789e81", "0", "1Gi"} {
			x, y := resource.MustParse(a), resource.MustParse(b)
			require.Equal(t, x.Cmp(y), quantity.Compare(x, y), "%s and %s", a, b)
		}
	}
}

// TestEndlessInOrder: comparisons are exact even though no digits are calculated.
func TestEndlessInOrder(t *testing.T) {
	ordered := []string{"-12e999999999", "-1e999999999", "-1e99999999", "0e999999999", "1", "1e99999999", "1e999999998", "1e999999999",
		"1001e999999996", "1.5e999999999", "15000000001e999999989", "1e2147483647"}
	for i, a := range ordered {
		for j, b := range ordered {
			require.Equal(t, cmp.Compare(i, j), quantity.Compare(resource.MustParse(a), resource.MustParse(b)), "%s and %s", a, b)
		}
	}
}

// TestEndlessCompared: with resource.Quantity, none of these comparisons would finish.
func TestEndlessCompared(t *testing.T) {
	endless, one := resource.MustParse("1e999999999"), resource.MustParse("1")
	long := *resource.NewDecimalQuantity(*inf.NewDec(math.MaxInt64, -999_999_999), resource.DecimalExponent)
	require.Equal(t, 1, quantity.Compare(endless, one))
	require.Equal(t, -1, quantity.Compare(one, endless))
	require.Equal(t, 1, quantity.Compare(long, endless))
	require.True(t, quantity.Equal(endless, resource.MustParse("10e999999998")))
	require.False(t, quantity.DeepEqual(v1.ResourceList{"r": endless}, v1.ResourceList{"r": one}))
	require.True(t, quantity.DeepEqual(v1.ResourceList{"r": endless}, v1.ResourceList{"r": endless.DeepCopy()}))
	for _, q := range []resource.Quantity{endless, long, resource.MustParse("-1e999999999"), resource.MustParse("0e999999999")} {
		require.Zero(t, quantity.Value(q))
		require.Zero(t, quantity.MilliValue(q))
	}
	require.Equal(t, "1e999999999", endless.String())
}

func TestIsEndless(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "5": false, "5E": false, "5Ei": false, "5e3": false, "5E-3": false, "1e1000": false, "e": false, "sele": false,
		"1e1001": true, "1e-1001": true, "1E+1001": true, "1e99999999999999999999": true, "e12e-5000": true, "1e-999999999": true,
		strings.Repeat("9", 1001): true, "gpu-7c3e10": false,
	} {
		require.Equal(t, want, quantity.IsEndless(text), text)
	}
}

func TestCheckJSON(t *testing.T) {
	const pod = `{"metadata":{"name":"1e-999999999","labels":{"cpu":"1e-999999999"}},"spec":{"containers":[{"resources":{%s}}]}}`
	for resources, want := range map[string]error{
		`"requests":{"cpu":"1e-999999999"}`:           quantity.ErrEndless,
		`"requests":{"cpu":"1e-999999999","cpu":"1"}`: quantity.ErrEndless,
		`"REQUESTS":{"cpu":" 1e-999999999 "}`:         quantity.ErrEndless,
		`"limits":{"cpu":1e-999999999}`:               quantity.ErrEndless,
		`"requests":{"cpu":"1e-9","memory":80}`:       nil,
		`"claims":[{"name":"1e-999999999"}]`:          nil,
	} {
		require.ErrorIs(t, quantity.CheckJSON(fmt.Appendf(nil, pod, resources), reflect.TypeFor[v1.Pod](), quantity.IsEndless), want, resources)
	}
	const claim = `{"spec":{"devices":{"requests":[{"exactly":{"capacity":{"requests":{"m":"%s"}}}}]}}}`
	ofClaim := reflect.TypeFor[*resourceapi.ResourceClaim]()
	require.ErrorContains(t, quantity.CheckJSON(fmt.Appendf(nil, claim, "1e-9999"), ofClaim, quantity.TakesLong), `m is "1e-9999"`)
	require.ErrorIs(t, quantity.CheckJSON(fmt.Appendf(nil, claim, "1e9999"), ofClaim, quantity.IsEndless), quantity.ErrEndless)
	require.NoError(t, quantity.CheckJSON(fmt.Appendf(nil, claim, "1e9999"), ofClaim, quantity.TakesLong))
	require.Error(t, quantity.CheckJSON([]byte(`{"spec":`), reflect.TypeFor[v1.Pod](), quantity.IsEndless))
	require.ErrorContains(t, quantity.CheckJSON(bytes.Repeat([]byte("["), 1<<20), ofClaim, quantity.IsEndless), "nested")
}

// TestTakesLong parses each text that is reported as fast, which would take hours if that were wrong.
func TestTakesLong(t *testing.T) {
	for text, want := range map[string]bool{
		"5": false, "1e999999999": false, "-1E+999999999": false, "123456789012345678e2147483647": false, "1.5e999999999": false,
		"1234567890123456789e999999999": true, "1e-999999999": true, "1e3294967297": true, "1e99999999999999999999": true,
		strings.Repeat("9", 1001): true, strings.Repeat("g", 1001): true,
	} {
		require.Equal(t, want, quantity.TakesLong(text), text)
		if !want {
			resource.MustParse(text)
		}
	}
}
