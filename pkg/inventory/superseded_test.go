package inventory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestSuperseded: the store reports the slices that are no longer the newest, and their
// replacements.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	var told []string
	store := inventory.NewStore(inventory.Options{PartitionableDevices: true})
	store.Superseded = func(slice, by *inventory.Slice) {
		require.NotNil(t, store.Pool(slice.PoolID()), "the pool has the slice still")
		line := fmt.Sprintf("%s/%d", slice.Name, slice.Spec.Pool.Generation)
		if by != nil {
			line += fmt.Sprintf(" by %d", by.Spec.Pool.Generation)
		}
		told = append(told, line)
	}
	refresh := func(name string, slice *resourceapi.ResourceSlice) []string {
		told = nil
		store.RefreshSlice(name, func() *resourceapi.ResourceSlice { return slice })
		return told
	}
	counters := func(name, pool string, generation int64) *resourceapi.ResourceSlice {
		return b.Slice(name).InPool(pool, generation, 2).OnNode("a").Counters("set", "memory", "8").Obj()
	}
	devices := func(name, pool string, generation int64) *resourceapi.ResourceSlice {
		return b.Slice(name).InPool(pool, generation, 2).OnNode("a").Devices(b.Device("half").Consumes("set", "memory", "4")).Obj()
	}
	require.Empty(t, refresh("c", counters("c", "p", 1)))
	require.Empty(t, refresh("d", devices("d", "p", 1)))
	require.Equal(t, []string{"d/1 by 1"}, refresh("d", devices("d", "p", 1)), "updated in place")
	require.Equal(t, []string{"c/1 by 2", "d/1"}, refresh("c", counters("c", "p", 2)), "the first one of a generation")
	require.Equal(t, []string{"d/1 by 2"}, refresh("d", devices("d", "p", 2)), "once more: it may have been a leftover from the beginning")
	require.Equal(t, []string{"c/2", "d/2"}, refresh("c3", counters("c3", "p", 3)))
	require.Empty(t, refresh("d3", devices("d3", "p", 3)))
	require.Equal(t, []string{"d/2"}, refresh("d", nil), "one that is left of an older generation")
	require.Equal(t, []string{"d3/3"}, refresh("d3", devices("d3", "q", 1)), "it moves to another pool")
	require.Equal(t, []string{"d3/1"}, refresh("d3", nil))

	plain := b.NodeSlice("b", b.Devices("gpu-0")...)
	require.Empty(t, refresh("b", plain.Obj()))
	require.Empty(t, refresh("b", nil), "no device of the pool consumes counters")
}
