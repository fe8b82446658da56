package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// BenchmarkDistinctExpressions uses a different expression for each pod. Half of them fail on all devices,
// the others match one device. Each of the 5,000 nodes has 8 devices with unique identifiers. It measures the
// time to ask all nodes, and the growth of the heap after a first question, which creates all pools. With
// -benchtime 2000x there are 2,000 pods.
func BenchmarkDistinctExpressions(bm *testing.B) {
	const nodes = 5000
	published := make([]*resourceapi.ResourceSlice, nodes)
	onto := make([]*v1.Node, nodes)
	for i := range published {
		name := fmt.Sprint("node-", i)
		devices := b.NumberedDevices("gpu", 8)
		for d, device := range devices {
			device.Attr("uuid", fmt.Sprintf("GPU-%d-%d", i, d)).Attr("model", "a100").Capacity("memory", "80Gi")
		}
		published[i], onto[i] = b.NodeSlice(name, devices...).Obj(), b.Node(name)
	}
	for name, start := range map[string]func() asked{
		"ours": func() asked { return askOurs(published) }, "kube-scheduler": func() asked { return askUpstream(published) },
	} {
		bm.Run("impl="+name, func(bm *testing.B) {
			ask := start()
			ask(bm.Context(), onto, b.Claim("claim", b.Request("gpu", "gpu").Where("true")).Obj()) // It creates the pools.
			before, pod := heapInUse(), 0
			for bm.Loop() {
				expression := fmt.Sprintf(`device.attributes["gpu.example.com"].uuid == "GPU-%d-3"`, pod%nodes)
				if pod%2 == 0 {
					expression = fmt.Sprintf(`device.attributes["gpu.example.com"].missing == %d`, pod)
				}
				fits := ask(bm.Context(), onto, b.Claim("claim", b.Request("gpu", "gpu").Where(expression)).Obj())
				if fits != pod%2 {
					bm.Fatalf("the pod with %s fits on %d nodes", expression, fits)
				}
				pod++
			}
			bm.ReportMetric(float64(heapInUse()-before)/(1<<20), "MiB")
			runtime.KeepAlive(ask)
		})
	}
}

// asked asks all nodes about a claim and returns the number of nodes on which it fits.
type asked func(context.Context, []*v1.Node, *resourceapi.ResourceClaim) int

func askOurs(published []*resourceapi.ResourceSlice) asked {
	store, usage := inventory.FromSlices(published, allocator.InventoryOptions(defaultFeatures)), ledger.New()
	evaluator := selector.NewEvaluator(cel.NewCache(10, cel.Features{}))
	evaluator.RememberIn(memo.New(memo.DefaultBound - selector.DefaultLooks)) // As in the plugin.
	evaluator.RememberLooks(selector.NewLooks(selector.DefaultLooks))
	evaluator.RememberPrograms(new(selector.Programs))
	solver := &allocator.Solver{
		Features: defaultFeatures, Evaluator: evaluator,
		Classes: classList(b.Class("gpu", `device.driver == "gpu.example.com"`)),
	}
	return func(ctx context.Context, nodes []*v1.Node, claim *resourceapi.ResourceClaim) (fits int) {
		task := solver.Prepare([]*resourceapi.ResourceClaim{claim})
		for _, node := range nodes {
			outcome, err := task.Check(ctx, allocator.NodeView{Node: node, Pools: store.OnNode(node), Usage: usage})
			if err != nil && !errors.Is(err, selector.ErrRuntime) {
				panic(err)
			}
			if err == nil {
				if outcome.Fits() {
					fits++
				}
				outcome.Release()
			}
		}
		return fits
	}
}

// askUpstream works as kube-scheduler: it creates an allocator for each pod, and gives up on the pod when a
// node has a device that cannot be judged.
func askUpstream(published []*resourceapi.ResourceSlice) asked {
	compiled := cel.NewCache(10, cel.Features{})
	classes := classList(b.Class("gpu", `device.driver == "gpu.example.com"`))
	return func(ctx context.Context, nodes []*v1.Node, claim *resourceapi.ResourceClaim) (fits int) {
		state := structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		}
		a, err := structured.NewAllocator(ctx, defaultFeatures, state, classes, published, compiled)
		if err != nil {
			panic(err)
		}
		for _, node := range nodes {
			results, err := a.Allocate(ctx, node, []*resourceapi.ResourceClaim{claim})
			if err != nil {
				return fits
			}
			if results != nil {
				fits++
			}
		}
		return fits
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
