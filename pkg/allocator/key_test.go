package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// keyOf prepares a claim with one class under two names, and one that selects more.
func keyOf(t *testing.T, claim *resourceapi.ResourceClaim) string {
	t.Helper()
	small := b.Class("small")
	small.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "false"}}}
	solver := &allocator.Solver{
		Features: allocator.Supported, Evaluator: selector.NewEvaluator(newCache()),
		Classes: classes{"gpu": b.Class("gpu"), "gpu-too": b.Class("gpu-too"), "small": small},
	}
	task := solver.Prepare([]*resourceapi.ResourceClaim{claim})
	require.NoError(t, task.Err())
	return string(task.AppendKey(nil))
}

// TestKeyIsOfWhatIsMeant: claims that ask for the same in other words have the same key, and every change of
// the solutions changes the key.
func TestKeyIsOfWhatIsMeant(t *testing.T) {
	t.Parallel()
	two := func(first, second, class string) *b.ClaimBuilder {
		return b.Claim("c", b.Request(first, class), b.Request(second, class).Count(2))
	}
	base := keyOf(t, two("a", "b", "gpu").Match("example.com/root", "a", "b").Obj())
	for name, same := range map[string]*b.ClaimBuilder{
		"other names of requests":            two("x", "y", "gpu").Match("example.com/root", "x", "y"),
		"a class of another name":            two("a", "b", "gpu-too").Match("example.com/root", "a", "b"),
		"a constraint that names no request": two("a", "b", "gpu").Match("example.com/root"),
		"parameters for the driver":          two("a", "b", "gpu").Match("example.com/root", "a", "b").Config("gpu.example.com", `{"mode": 1}`),
	} {
		require.Equal(t, base, keyOf(t, same.Obj()), name)
	}
	for name, other := range map[string]*b.ClaimBuilder{
		"no constraint":           two("a", "b", "gpu"),
		"another attribute":       two("a", "b", "gpu").Match("example.com/numa", "a", "b"),
		"a constraint for one":    two("a", "b", "gpu").Match("example.com/root", "a"),
		"the other order":         b.Claim("c", b.Request("b", "gpu").Count(2), b.Request("a", "gpu")).Match("example.com/root", "a", "b"),
		"a class of another sort": two("a", "b", "small").Match("example.com/root", "a", "b"),
		"an expression": b.Claim("c", b.Request("a", "gpu").Where("true"), b.Request("b", "gpu").Count(2)).
			Match("example.com/root", "a", "b"),
	} {
		require.NotEqual(t, base, keyOf(t, other.Obj()), name)
	}
}
