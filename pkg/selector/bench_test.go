package selector_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// gpuNode has ten devices. Without a number it equals all other nodes; with a number its devices have unique
// identifiers, as real drivers publish them.
func gpuNode(name, number string) *resourceapi.ResourceSlice {
	devices := b.NumberedDevices("gpu", 10)
	for i, device := range devices {
		device.Attr("index", i).Attr("model", "a100").Attr("brand", "example").Attr("numa", i/5).
			Attr("driverVersion", resourceapi.DeviceAttribute{VersionValue: ptr.To("570.86.15")}).Capacity("memory", "80Gi")
		if number != "" {
			device.Attr("uuid", fmt.Sprintf("GPU-%s-%d", number, i))
		}
	}
	return b.NodeSlice(name, devices...).Obj()
}

func gpuNodes(n int, numbered bool) []*resourceapi.ResourceSlice {
	published := make([]*resourceapi.ResourceSlice, n)
	for i := range published {
		number := ""
		if numbered {
			number = fmt.Sprintf("%08d", i)
		}
		published[i] = gpuNode(fmt.Sprintf("node-%d", i), number)
	}
	return published
}

// BenchmarkSelectInCluster measures the cost of the first pod of a kind on 5,000 nodes, and the heap that the answers take.
func BenchmarkSelectInCluster(bm *testing.B) {
	for _, numbered := range []bool{false, true} {
		name := fmt.Sprintf("numbered=%t", numbered)
		bm.Run(name, func(bm *testing.B) {
			published := gpuNodes(5000, numbered)
			set := setOf(b.Class("class", isOurs), isA100)
			bm.ReportAllocs()
			for bm.Loop() {
				bm.StopTimer()
				store, evaluator := inventory.FromSlices(published, inventory.Options{}), newEvaluator()
				var pools []*inventory.NodePool
				for _, slice := range published {
					pools = append(pools, store.OnNode(b.Node(slice.Name))...)
				}
				require.Len(bm, pools, len(published))
				before := liveHeap()
				bm.StartTimer()
				for _, pool := range pools {
					selection, err := evaluator.Select(bm.Context(), pool, set)
					if err != nil || selection.Matches.Len() != 10 {
						bm.Fatalf("%d devices, error %v", selection.Matches.Len(), err)
					}
				}
				bm.StopTimer()
				bm.ReportMetric(float64(liveHeap()-before)/1e6, "MB")
				runtime.KeepAlive(store)
				runtime.KeepAlive(evaluator)
				bm.StartTimer()
			}
		})
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
