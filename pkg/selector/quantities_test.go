package selector

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// memoryDevice is a device with 40Gi of memory, an endless capacity, and a text that would be
// an endless quantity. The attribute derived from it by an expression is that expression's value.
func memoryDevice(t *testing.T) *inventory.NodePool {
	t.Helper()
	slice := b.NodeSlice("n").Devices(b.Device("d").Capacity("memory", "40Gi").Capacity("endless", "1e999999999").
		Attr("text", "1e-999999999")).Obj()
	store := inventory.NewStore(inventory.Options{})
	store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
	found := store.OnNode(b.Node("n"))
	require.Len(t, found, 1)
	return found[0]
}

// TestEndlessQuantities: expressions that would keep resource.Quantity busy for hours, and the
// same functions used as they are meant to be. Without bounds the test does not end.
func TestEndlessQuantities(t *testing.T) {
	t.Parallel()
	const memory, endless, text = `device.capacity["gpu.example.com"].memory`, `device.capacity["gpu.example.com"].endless`, `device.attributes["gpu.example.com"].text`
	const refused = "quantities here have at most"
	tests := map[string]struct {
		want bool
		err  string
	}{
		memory + `.isGreaterThan(quantity("1e999999999"))`:                       {err: refused},
		memory + `.isGreaterThan(quantity("1e" + "999999999"))`:                  {err: refused},
		memory + `.compareTo(quantity("1e-999999999")) > 0`:                      {err: refused},
		memory + `.compareTo(quantity(` + text + `)) > 0`:                        {err: refused},
		memory + `.compareTo(quantity("1e99999999999999999999")) > 0`:            {err: refused},
		`["1e-999999999"].all(x, isQuantity(x))`:                                 {err: refused},
		`[quantity("1"), quantity("1e999999999")].exists(q, q == quantity("1"))`: {err: refused},
		`quantity("1e999999999").add(5).isInteger()`:                             {err: refused},
		memory + `.isLessThan(` + endless + `)`:                                  {want: true},
		endless + `.add(` + memory + `).isGreaterThan(` + endless + `)`:          {want: true},
		memory + `.isGreaterThan(quantity("5e3"))`:                               {want: true},
		memory + `.compareTo(quantity("40Gi")) == 0`:                             {want: true},
		memory + ` == quantity("40Gi")`:                                          {want: true},
		`quantity("1E").isGreaterThan(quantity("1Ei"))`:                          {want: false},
		`quantity(dyn(5)).isInteger()`:                                           {err: "no such overload"},
		`isQuantity("40Gi") && !isQuantity("40gigs") && !isQuantity("e")`:        {want: true},
		`quantity("nonsense").isInteger()`:                                       {err: "quantities must match"},
		`quantity("1e3").asInteger() == 1000`:                                    {want: true},
	}
	pool := memoryDevice(t)
	e := NewEvaluator(cel.NewCache(100, cel.Features{}))
	for expression, want := range tests {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			set := aSet(expression)
			selection, err := e.Select(t.Context(), pool, set)
			require.NoError(t, err)
			if want.err != "" {
				require.Equal(t, 1, selection.Failed.Len())
				require.ErrorContains(t, set.Error(pool, selection, 0), want.err)
				return
			}
			require.Zero(t, selection.Failed.Len())
			require.Equal(t, want.want, selection.Matches.Has(0))
		})
	}
}

// TestEndlessDerivedAttribute: expressions of constraints parse quantities as well.
func TestEndlessDerivedAttribute(t *testing.T) {
	t.Parallel()
	pool := memoryDevice(t)
	e := NewEvaluator(cel.NewCache(100, cel.Features{}))
	_, err := e.Derive(t.Context(), &pool.Devices[0], `quantity("1e999999999").compareTo(quantity("1"))`)
	require.ErrorContains(t, err, "quantities here have at most")
	derived, err := e.Derive(t.Context(), &pool.Devices[0], `quantity("7k").asInteger()`)
	require.NoError(t, err)
	require.Equal(t, ptr.To[int64](7000), derived.IntValue)
}
