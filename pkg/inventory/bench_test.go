package inventory_test

import (
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// clusterOf makes slices of n nodes with ten devices each, which are alike. With
// numbered, each device also has an attribute that no other device has, as real
// drivers publish it.
func clusterOf(n int, numbered bool) []*resourceapi.ResourceSlice {
	published := make([]*resourceapi.ResourceSlice, n)
	for node := range published {
		devices := b.NumberedDevices("gpu", 10)
		for i, device := range devices {
			device.Attr("index", i).Attr("model", "h100").Attr("brand", "example").Attr("numa", i/5).
				Attr("driverVersion", resourceapi.DeviceAttribute{VersionValue: ptr.To("570.86.15")}).Capacity("memory", "80Gi")
			if numbered {
				device.Attr("uuid", fmt.Sprintf("GPU-%08d-%d", node, i))
			}
		}
		published[node] = b.NodeSlice(fmt.Sprintf("node-%d", node), devices...).Obj()
	}
	return published
}

// BenchmarkPublish measures how long it takes until a slice can be read. With "rewritten", the
// published slice has the same content as before at other addresses.
func BenchmarkPublish(bm *testing.B) {
	const n = 5000
	for _, numbered := range []bool{false, true} {
		name := fmt.Sprintf("numbered=%t", numbered)
		published, again := clusterOf(n, numbered), clusterOf(n, numbered)
		bm.Run("new/"+name, func(bm *testing.B) {
			store := inventory.NewStore(all)
			publishInTurn(bm, store, published)
		})
		bm.Run("rewritten/"+name, func(bm *testing.B) {
			store := inventory.FromSlices(published, all)
			publishInTurn(bm, store, again, published)
		})
	}
}

// publishInTurn publishes one slice in each round.
func publishInTurn(bm *testing.B, store *inventory.Store, versions ...[]*resourceapi.ResourceSlice) {
	bm.ReportAllocs()
	for i := 0; bm.Loop(); i++ {
		version := versions[i/len(versions[0])%len(versions)]
		slice := version[i%len(version)]
		if len(versions) == 1 {
			// Otherwise the second round would have nothing to do.
			store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return nil })
		}
		store.RefreshSlice(slice.Name, func() *resourceapi.ResourceSlice { return slice })
	}
}

// BenchmarkHeap reports what the inventory of 5,000 nodes keeps, without the API
// objects and what is derived.
func BenchmarkHeap(bm *testing.B) {
	for _, numbered := range []bool{false, true} {
		name := fmt.Sprintf("numbered=%t", numbered)
		bm.Run(name, func(bm *testing.B) {
			published := clusterOf(5000, numbered)
			for bm.Loop() {
				before := liveHeap()
				store := inventory.FromSlices(published, all)
				for _, slice := range published {
					store.OnNode(b.Node(slice.Name))
				}
				bm.ReportMetric(float64(liveHeap()-before)/1e6, "MB")
				runtime.KeepAlive(store)
			}
		})
	}
}

// sharedPool makes the slices of one pool of 10,000 devices, 128 in each: for all nodes, or
// two of them for each of 5,000 nodes, in the order of the nodes or here and there.
func sharedPool(kind string) []*resourceapi.ResourceSlice {
	const devices = 10000
	var slices []*b.SliceBuilder
	for first := 0; first < devices; first += 128 {
		slice := b.Slice(fmt.Sprintf("slice-%03d", first/128))
		if kind == "all nodes" {
			slice.OnAllNodes()
		} else {
			slice.PerDevice()
		}
		for i := first; i < min(first+128, devices); i++ {
			device := b.Device(fmt.Sprintf("device-%05d", i))
			switch kind {
			case "own in order":
				device.OnNode(fmt.Sprintf("node-%d", i/2))
			case "own here and there":
				device.OnNode(fmt.Sprintf("node-%d", i*7919%devices/2))
			}
			slice.Devices(device)
		}
		slices = append(slices, slice)
	}
	var published []*resourceapi.ResourceSlice
	for _, slice := range slices {
		published = append(published, slice.InPool("shared", 1, int64(len(slices))).Obj())
	}
	return published
}

// BenchmarkSharedPool asks for each of 5,000 nodes in turn what it sees of a pool of 10,000
// devices, and reports what is kept once all have asked.
func BenchmarkSharedPool(bm *testing.B) {
	for _, kind := range []string{"all nodes", "own in order", "own here and there"} {
		bm.Run(kind, func(bm *testing.B) {
			published := sharedPool(kind)
			nodes := make([]*v1.Node, 5000)
			for i := range nodes {
				nodes[i] = b.Node(fmt.Sprintf("node-%d", i))
			}
			before := liveHeap()
			store := inventory.FromSlices(published, all)
			for _, node := range nodes {
				if len(store.OnNode(node)) != 1 {
					bm.Fatal("each node sees the pool")
				}
			}
			kept := liveHeap() - before
			for i := 0; bm.Loop(); i++ {
				store.OnNode(nodes[i%len(nodes)])
			}
			bm.ReportMetric(float64(kept)/1e6, "MB")
			runtime.KeepAlive(store)
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
