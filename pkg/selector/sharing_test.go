package selector_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// selectOn evaluates a set on a node's only pool and returns the names of the devices.
func selectOn(t *testing.T, evaluator *selector.Evaluator, store *inventory.Store, node string, set selector.Set) []string {
	t.Helper()
	pools := store.OnNode(b.Node(node))
	require.Len(t, pools, 1)
	selection, err := evaluator.Select(t.Context(), pools[0], set)
	require.NoError(t, err)
	var members []int
	for i := range selection.Matches.All() {
		members = append(members, i)
	}
	return names(pools[0], members)
}

func TestNodesThatAreAlikeShareVerdicts(t *testing.T) {
	const n = 100
	store, evaluator := inventory.FromSlices(gpuNodes(n, false), inventory.Options{}), newEvaluator()
	set := setOf(b.Class("class", isOurs), `device.attributes["gpu.example.com"].index < 2`)
	for i := range n {
		require.Equal(t, []string{"gpu-0", "gpu-1"}, selectOn(t, evaluator, store, fmt.Sprintf("node-%d", i), set))
	}
	require.EqualValues(t, 2*10, evaluator.Evaluations(), "each expression for each device of one node")

	// A driver that starts again publishes the same.
	for _, slice := range gpuNodes(n, false) {
		slice.Spec.Pool.Generation++
		store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
	}
	require.Len(t, selectOn(t, evaluator, store, "node-0", set), 2)
	require.EqualValues(t, 2*10, evaluator.Evaluations())
}

func TestADeviceThatDiffersIsJudgedForItself(t *testing.T) {
	published := gpuNodes(2, false)
	published[1].Spec.Devices[3].Attributes["model"] = resourceapi.DeviceAttribute{StringValue: ptr.To("t4")}
	store, evaluator := inventory.FromSlices(published, inventory.Options{}), newEvaluator()
	require.Len(t, selectOn(t, evaluator, store, "node-0", setOf(b.Class("class", isA100))), 10)
	require.NotContains(t, selectOn(t, evaluator, store, "node-1", setOf(b.Class("class", isA100))), "gpu-3")
}

// TestFailuresNameTheirOwnDevices: nodes share verdicts although devices have other names.
func TestFailuresNameTheirOwnDevices(t *testing.T) {
	evaluator, set := newEvaluator(), setOf(b.Class("class", isA100))
	store := inventory.FromSlices([]*resourceapi.ResourceSlice{
		b.NodeSlice("a", b.Device("plain-a")).Obj(), b.NodeSlice("b", b.Device("plain-b")).Obj(),
	}, inventory.Options{})
	for _, node := range []string{"a", "b"} {
		pool := store.OnNode(b.Node(node))[0]
		selection, err := evaluator.Select(t.Context(), pool, set)
		require.NoError(t, err)
		require.Contains(t, set.Error(pool, selection, 0).Error(), "gpu.example.com/"+node+"/plain-"+node)
	}
	require.EqualValues(t, 1, evaluator.Evaluations())
}

func TestNodesThatAreAlikeShareDerivedAttributes(t *testing.T) {
	store, evaluator := inventory.FromSlices([]*resourceapi.ResourceSlice{
		b.NodeSlice("a", b.Device("a0").Attr("index", 0), b.Device("a1").Attr("index", 1)).Obj(),
		b.NodeSlice("b", b.Device("b0").Attr("index", 0), b.Device("b1").Attr("index", 1)).Obj(),
	}, inventory.Options{}), newEvaluator()
	for _, node := range []string{"a", "b"} {
		pool := store.OnNode(b.Node(node))[0]
		for i := range pool.Devices {
			attribute, err := evaluator.Derive(t.Context(), &pool.Devices[i], `device.attributes["gpu.example.com"].index`)
			require.NoError(t, err)
			require.EqualValues(t, i, *attribute.IntValue)
		}
	}
	require.EqualValues(t, 2, evaluator.Evaluations())
}
