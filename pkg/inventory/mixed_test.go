package inventory_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// Slices of drivers for Kubernetes 1.33 and 1.34 have devices beside the counters that these draw
// from, and call the sets of each slice as they like.
func TestMixedSlices(t *testing.T) {
	mixed := func(name, memory string) *resourceapi.ResourceSlice {
		return b.Slice(name).InPool("a", 1, 2).OnNode("n").Counters("gpu", "memory", memory).Devices(
			b.Device(name+"-half").Consumes("gpu", "memory", "20Gi"),
			b.Device(name+"-plain"),
		).Obj()
	}
	published := []*resourceapi.ResourceSlice{mixed("first", "40Gi"), mixed("second", "20Gi")}
	before := published[0].DeepCopy()
	pools := map[string][]*inventory.NodePool{}
	pools["store"] = inventory.FromSlices(published, inventory.Options{PartitionableDevices: true}).OnNode(b.Node("n"))
	pools["known"] = inventory.NewKnown(inventory.Options{PartitionableDevices: true}).NewSnapshot(published).OnNode(b.Node("n"))
	for how, pools := range pools {
		t.Run(how, func(t *testing.T) {
			require.Len(t, pools, 1)
			pool := pools[0]
			require.Equal(t, inventory.Complete, pool.State, pool.Reason)
			require.Len(t, pool.Devices, 4, "the devices beside counters count")
			require.Equal(t, []string{"first/gpu", "second/gpu"}, pool.Counters.Sets, "each slice has its own")
			require.Equal(t, 0, pool.Draws("first-half")[0].Set)
			require.Equal(t, 1, pool.Draws("second-half")[0].Set)
			require.Empty(t, pool.Draws("first-plain"))
			left := append(pool.Counters.Published[:0:0], pool.Counters.Published...)
			for range 2 {
				require.True(t, pool.Draws("first-half")[0].CoveredBy(left))
				pool.Draws("first-half")[0].TakeFrom(left)
			}
			require.False(t, pool.Draws("first-half")[0].CoveredBy(left))
			require.True(t, pool.Draws("second-half")[0].CoveredBy(left), "what the other slice has is untouched")
		})
	}
	require.Equal(t, before, published[0], "what was published belongs to the informer")
}

// A device cannot draw from a set of another slice if its own has counters.
func TestMixedSliceDrawsFromItself(t *testing.T) {
	pools := inventory.FromSlices([]*resourceapi.ResourceSlice{
		b.Slice("one").InPool("a", 1, 2).OnNode("n").Counters("gpu", "memory", "40Gi").Devices(b.Device("lost").Consumes("other", "memory", "1Gi")).Obj(),
		b.Slice("two").InPool("a", 1, 2).OnNode("n").Counters("other", "memory", "40Gi").Obj(),
	}, inventory.Options{PartitionableDevices: true}).OnNode(b.Node("n"))
	require.Len(t, pools, 1)
	require.Equal(t, inventory.Invalid, pools[0].State)
	require.Contains(t, pools[0].Reason, "one/other")
}
