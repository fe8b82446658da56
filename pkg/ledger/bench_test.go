package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// BenchmarkOccupiedOfSharedPool asks for each node in turn what is in use in a pool of
// which each node sees something else: 16 devices for each node, 8 nodes to a slice, half
// of the devices in use.
func BenchmarkOccupiedOfSharedPool(bm *testing.B) {
	for _, slices := range []int{1, 8, 64} {
		bm.Run(fmt.Sprintf("slices=%d", slices), func(bm *testing.B) {
			var published []*resourceapi.ResourceSlice
			devices := make(map[string]ledger.DeviceUsage)
			for s := range slices {
				slice := b.Slice(fmt.Sprintf("slice-%d", s)).InPool("shared", 1, int64(slices)).PerDevice()
				for i := range 8 * 16 {
					name := fmt.Sprintf("device-%d-%d", s, i)
					slice.Devices(b.Device(name).OnNode(fmt.Sprintf("node-%d", s*8+i/16)))
					if i%2 == 0 {
						devices[name] = ledger.DeviceUsage{Holders: []ledger.ClaimRef{{Name: name}}}
					}
				}
				published = append(published, slice.Obj())
			}
			store, usage := inventory.FromSlices(published, inventory.Options{PartitionableDevices: true}), ledger.NewPoolUsage(devices)
			var pools []*inventory.NodePool
			for node := range slices * 8 {
				pools = append(pools, store.OnNode(b.Node(fmt.Sprintf("node-%d", node)))...)
			}
			require.Len(bm, pools, slices*8)
			for i := 0; bm.Loop(); i++ {
				if usage.Occupied(pools[i%len(pools)]).Len() != 64 {
					bm.Fatal("half of the 128 devices that a node knows are in use")
				}
			}
		})
	}
}
