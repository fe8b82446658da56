package selector_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	isA100   = `device.attributes["gpu.example.com"].model == "a100"`
	hasModel = `"model" in device.attributes["gpu.example.com"]`
	isOurs   = `device.driver == "gpu.example.com"`
	broken   = `device.driver ==`
)

func poolOn(t *testing.T, builders ...*b.SliceBuilder) *inventory.NodePool {
	t.Helper()
	var published []*resourceapi.ResourceSlice
	for _, builder := range builders {
		published = append(published, builder.Obj())
	}
	pools := inventory.FromSlices(published, inventory.Options{PartitionableDevices: true}).OnNode(b.Node("a"))
	require.Len(t, pools, 1)
	return pools[0]
}

func setOf(class *resourceapi.DeviceClass, expressions ...string) selector.Set {
	request := b.Request("gpu", class.Name).Where(expressions...)
	claim := b.Claim("claim", request).Obj()
	return selector.NewSet(class, claim, "gpu", claim.Spec.Devices.Requests[0].Exactly.Selectors)
}

func newEvaluator() *selector.Evaluator {
	return selector.NewEvaluator(cel.NewCache(10, cel.Features{}))
}

func names(pool *inventory.NodePool, members []int) []string {
	var result []string
	for _, i := range members {
		result = append(result, pool.Devices[i].Name)
	}
	return result
}

func TestSelect(t *testing.T) {
	devices := []*b.DeviceBuilder{
		b.Device("a100-0").Attr("model", "a100"), b.Device("t4-0").Attr("model", "t4"),
		b.Device("plain"), b.Device("a100-1").Attr("model", "a100"),
	}
	oneSlice := func(t *testing.T) *inventory.NodePool { return poolOn(t, b.NodeSlice("a", devices...)) }
	twoSlices := func(t *testing.T) *inventory.NodePool {
		return poolOn(t,
			b.Slice("s1").InPool("p", 1, 2).OnNode("a").Devices(devices[:2]...),
			b.Slice("s2").InPool("p", 1, 2).OnNode("a").Devices(devices[2:]...))
	}
	tests := map[string]struct {
		class   []string
		request []string
		matches []string
		failed  []string
		err     error
		text    string
	}{
		"no selectors match everything": {matches: []string{"a100-0", "t4-0", "plain", "a100-1"}},
		"class only":                    {class: []string{isOurs}, matches: []string{"a100-0", "t4-0", "plain", "a100-1"}},
		"class and request":             {class: []string{hasModel}, request: []string{isA100}, matches: []string{"a100-0", "a100-1"}},
		"a missing attribute is an error for that device": {
			request: []string{isA100}, matches: []string{"a100-0", "a100-1"}, failed: []string{"plain"},
			err: selector.ErrRuntime, text: "/plain of slice ",
		},
		"an earlier selector protects a later one": {request: []string{hasModel, isA100}, matches: []string{"a100-0", "a100-1"}},
		"the order matters": {
			request: []string{isA100, hasModel}, matches: []string{"a100-0", "a100-1"}, failed: []string{"plain"},
			err: selector.ErrRuntime, text: "consider using CEL optional chaining",
		},
		"a broken expression fails for every device": {
			class: []string{broken}, failed: []string{"a100-0", "t4-0", "plain", "a100-1"},
			err:  selector.ErrCompile,
			text: "claim default/claim request gpu selector 0 of device class class does not compile: 1:17: Syntax error: ",
		},
	}
	for name, tc := range tests {
		for shape, makePool := range map[string]func(*testing.T) *inventory.NodePool{"one slice": oneSlice, "two slices": twoSlices} {
			t.Run(name+", "+shape, func(t *testing.T) {
				pool := makePool(t)
				set := setOf(b.Class("class", tc.class...), tc.request...)
				selection, err := newEvaluator().Select(t.Context(), pool, set)
				require.NoError(t, err)
				require.Equal(t, tc.matches, names(pool, slices.Collect(selection.Matches.All())))
				failed := slices.Collect(selection.Failed.All())
				require.Equal(t, tc.failed, names(pool, failed))
				for _, device := range failed {
					err := set.Error(pool, selection, device)
					require.ErrorIs(t, err, tc.err)
					require.ErrorContains(t, err, tc.text)
					require.NotContains(t, err.Error(), "\n", "several lines")
					require.NotContains(t, err.WithoutDevice(), pool.Devices[device].Name)
					// A compile error does not depend on the device.
					require.Equal(t, tc.err == selector.ErrRuntime, strings.Contains(err.Error(), pool.Devices[device].Name))
				}
			})
		}
	}
}

func TestVerdictsAreCachedOnThePool(t *testing.T) {
	pool := poolOn(t, b.NodeSlice("a", b.Device("d").Attr("model", "a100")))
	evaluator := newEvaluator()
	first, err := evaluator.Select(t.Context(), pool, setOf(b.Class("class"), isA100))
	require.NoError(t, err)
	again, err := evaluator.Select(t.Context(), pool, setOf(b.Class("class"), isA100))
	require.NoError(t, err)
	require.Same(t, first, again)
	other, err := evaluator.Select(t.Context(), pool, setOf(b.Class("class", isA100)))
	require.NoError(t, err)
	require.Same(t, first, other, "the same expressions give the same verdict, whoever wrote them")
}

// Users' expressions can be costly. They must not slow down requests for devices of other classes.
func TestWhereNoDeviceIsLeftNothingIsEvaluated(t *testing.T) {
	const isFirst = `device.attributes["gpu.example.com"].slice == 1`
	pool := poolOn(t,
		b.Slice("1").InPool("p", 1, 2).OnNode("a").Devices(b.Device("d").Attr("slice", 1), b.Device("e").Attr("slice", 1)),
		b.Slice("2").InPool("p", 1, 2).OnNode("a").Devices(b.Device("f").Attr("slice", 2)))
	evaluator := newEvaluator()
	selection, err := evaluator.Select(t.Context(), pool, setOf(b.Class("class", isFirst), hasModel))
	require.NoError(t, err)
	require.True(t, selection.Matches.Empty())
	require.EqualValues(t, 3+2, evaluator.Evaluations(), "the second expression only for the first slice")

	_, err = evaluator.Select(t.Context(), pool, setOf(b.Class("class", "false"), isA100, hasModel))
	require.NoError(t, err)
	require.EqualValues(t, 5+3, evaluator.Evaluations(), "only the first expression")
}

func TestErrorNamesTheOneWhoWroteTheSelector(t *testing.T) {
	pool := poolOn(t, b.NodeSlice("a", b.Device("d")))
	evaluator := newEvaluator()
	for origin, set := range map[string]selector.Set{
		"claim default/claim request gpu selector 0 of device class class": setOf(b.Class("class", isA100)),
		"claim default/claim request gpu selector 0 on device gpu.example.com/a/d of slice a: CEL runtime error: no such key: model. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields": setOf(b.Class("class"), isA100),
	} {
		selection, err := evaluator.Select(t.Context(), pool, set)
		require.NoError(t, err)
		require.ErrorContains(t, set.Error(pool, selection, 0), origin)
	}
}

func TestTheEndOfTheContextIsNoVerdict(t *testing.T) {
	pool := poolOn(t, b.NodeSlice("a", b.Device("d").Attr("model", "a100")))
	set := setOf(b.Class("class"), isA100)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	evaluator := newEvaluator()
	_, err := evaluator.Select(ctx, pool, set)
	require.ErrorIs(t, err, cause)

	selection, err := evaluator.Select(t.Context(), pool, set)
	require.NoError(t, err)
	require.True(t, selection.Matches.Has(0), "an interrupted evaluation must not be remembered")
}

func TestSameExpressions(t *testing.T) {
	one, other := b.Class("one", isOurs), b.Class("other")
	sets := []selector.Set{
		setOf(one), setOf(other, isOurs), // the same
		setOf(other), setOf(other, ""), setOf(other, "", ""),
		setOf(one, isA100), setOf(other, isOurs+isA100), setOf(other, "\x00"+isOurs),
	}
	for i := range sets {
		for j := range sets {
			require.Equal(t, i == j || i+j == 1, sets[i].Same(&sets[j]), "%d and %d", i, j)
		}
	}
}

func TestSetOfText(t *testing.T) {
	class := b.Class("gpu", isOurs)
	for _, expressions := range [][]string{nil, {hasModel}, {hasModel, isA100}, {"1:x", "\x00", ""}, {"\x00"}} {
		set := setOf(class, expressions...)
		back := selector.SetOf(set.Text())
		require.True(t, set.Same(&back), "%q", expressions)
		require.Equal(t, set.Text(), back.Text())
		require.False(t, back.IsEmpty())
	}
	any := setOf(b.Class("any"))
	back := selector.SetOf(any.Text())
	require.True(t, any.IsEmpty())
	require.True(t, back.IsEmpty())
	for _, odd := range []string{"\x003:ab", "\x00-1:ab", "\x00x"} {
		back := selector.SetOf(odd)
		require.False(t, back.IsEmpty(), "one expression that does not compile, for %q", odd)
	}
}
