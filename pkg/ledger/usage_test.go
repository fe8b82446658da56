package ledger_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func nodePool(slices ...*resourceapi.ResourceSlice) *inventory.NodePool {
	return inventory.FromSlices(slices, inventory.Options{PartitionableDevices: true}).OnNode(b.Node("a"))[0]
}

func TestOccupied(t *testing.T) {
	l := ledger.New()
	before := nodePool(b.NodeSlice("a", b.Devices("gpu-0", "gpu-1", "gpu-2")...).Obj())
	refresh(l, "x", b.Claim("x").Allocated("a", "gpu-1", "vanished"))
	occupied := func(pool *inventory.NodePool) []int {
		return slices.Collect(l.Pool(pool.ID).Occupied(pool).All())
	}
	require.Equal(t, []int{1}, occupied(before))
	after := nodePool(b.NodeSlice("a", b.Devices("gpu-1", "gpu-0")...).Obj())
	require.Equal(t, []int{0}, occupied(after), "positions follow the version of the pool")
	require.Equal(t, []int{1}, occupied(before))
	refresh(l, "x", nil)
	require.Empty(t, occupied(before))
}

// TestOccupiedOfAPart looks at a version of the pool with fewer devices than are in use.
func TestOccupiedOfAPart(t *testing.T) {
	l := ledger.New()
	refresh(l, "x", b.Claim("x").Allocated("a", "gpu-0", "gpu-1", "gpu-2"))
	refresh(l, "y", b.Claim("y").Allocated("a", "gpu-4"))
	part := nodePool(b.NodeSlice("a", b.Devices("gpu-3", "gpu-2", "gpu-4")...).Obj())
	require.Less(t, len(part.Devices), l.Pool(part.ID).Len())
	require.Equal(t, []int{1, 2}, slices.Collect(l.Pool(part.ID).Occupied(part).All()))
	require.Equal(t, []int{1, 2}, slices.Collect(l.Pool(part.ID).Held(part).All()))
	require.Empty(t, slices.Collect(l.Pool(part.ID).Shared(part).All()))
}

func TestRemaining(t *testing.T) {
	pool := nodePool(
		b.Slice("counters").InPool("a", 1, 3).OnNode("a").Counters("gpu-0", "memory", "40Gi", "engines", "7").Obj(),
		b.Slice("devices").InPool("a", 1, 3).OnNode("a").Devices(
			b.Device("small").Consumes("gpu-0", "memory", "10Gi", "engines", "1"),
			b.Device("large").Consumes("gpu-0", "memory", "40Gi"),
			b.Device("plain")).Obj(),
		b.Slice("elsewhere").InPool("a", 1, 3).OnNode("b").Devices(
			b.Device("remote").Consumes("gpu-0", "engines", "2")).Obj(),
	)
	remaining := func(l *ledger.Ledger) map[string]string {
		result := map[string]string{}
		for number, left := range l.Pool(pool.ID).Remaining(pool).Amounts {
			value := left.Quantity(pool.Counters.Formats[number])
			result[pool.Counters.Names[number]] = value.String()
		}
		return result
	}
	l := ledger.New()
	require.Equal(t, map[string]string{"memory": "40Gi", "engines": "7"}, remaining(l))
	refresh(l, "x", b.Claim("x").Allocated("a", "small", "plain", "unknown"))
	require.Equal(t, map[string]string{"memory": "30Gi", "engines": "6"}, remaining(l))
	refresh(l, "y", b.Claim("y").Allocated("a", "remote"))
	require.Equal(t, map[string]string{"memory": "30Gi", "engines": "4"}, remaining(l), "devices for other nodes count")
	refresh(l, "z", b.Claim("z").Allocated("a", "large"))
	require.Equal(t, map[string]string{"memory": "-10Gi", "engines": "4"}, remaining(l))
	published := pool.Counters.Published[1].Quantity(pool.Counters.Formats[1])
	require.Equal(t, "40Gi", published.String(), "published counters must not change")
}

// TestHeldUsage: what is made of positions says the same as what is made of names.
func TestHeldUsage(t *testing.T) {
	pool := nodePool(b.NodeSlice("a", b.Devices("gpu-0", "gpu-1", "gpu-2")...).Obj())
	by, held := []ledger.ClaimRef{{Name: "x"}}, bitset.New(len(pool.Devices))
	require.Zero(t, ledger.NewHeldUsage(pool.Layout, held, by).Len())
	held.Add(0)
	held.Add(2)
	got := ledger.NewHeldUsage(pool.Layout, held, by)
	want := ledger.NewPoolUsage(map[string]ledger.DeviceUsage{"gpu-0": {Holders: by}, "gpu-2": {Holders: by}})
	for range 2 { // The second time for a part of the devices, with nothing derived yet.
		require.Equal(t, want.Len(), got.Len())
		require.Equal(t, want.Held(pool), got.Held(pool))
		require.Equal(t, want.Occupied(pool), got.Occupied(pool))
		require.Equal(t, want.Shared(pool), got.Shared(pool))
		for _, name := range []string{"gpu-0", "gpu-1", "gpu-2"} {
			require.Equal(t, want.Device(name), got.Device(name))
		}
		pool = nodePool(b.NodeSlice("a", b.Devices("gpu-1", "gpu-2")...).Obj())
	}
}
