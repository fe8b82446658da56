package allocator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	isGPU = `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`
	isMIG = `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig"`
)

// benchmarkCase is the input of one benchmark.
type benchmarkCase struct {
	name   string
	slices []*resourceapi.ResourceSlice
	claims []*resourceapi.ResourceClaim
	fits   bool
	// tooLong is set if upstream needs seconds or more; upstream is then left out.
	tooLong bool
}

func benchmarkCases() []benchmarkCase {
	seventeen := make([]int64, 17)
	for i := range seventeen {
		seventeen[i] = 1
	}
	mig := slicesFrom("h100-mig-node.json")
	return []benchmarkCase{
		{name: "1_of_8", slices: gpuNode(8), claims: requestsOf(1), fits: true},
		{name: "8_of_8", slices: gpuNode(8), claims: requestsOf(8), fits: true},
		{name: "4_of_8_on_one_NUMA_node", slices: gpuNode(8), claims: onOneNUMANode(4), fits: true},
		{name: "16_of_128", slices: gpuNode(128), claims: requestsOf(16), fits: true},
		{name: "9_of_8_impossible", slices: gpuNode(8), claims: requestsOf(9)},
		{name: "5_of_8_on_one_NUMA_node_impossible", slices: gpuNode(8), claims: onOneNUMANode(5)},
		{name: "8_and_9_of_16_impossible", slices: gpuNode(16), claims: requestsOf(8, 9), tooLong: true},
		{name: "17_times_1_of_16_impossible", slices: gpuNode(16), claims: requestsOf(seventeen...), tooLong: true},
		{name: "MIG_7x1g10gb", slices: mig, claims: profiles("1g.10gb", 7), fits: true},
		{name: "MIG_8x3g40gb_8x2g20gb", slices: mig, claims: profiles("3g.40gb", 8, "2g.20gb", 8), fits: true},
		{name: "MIG_9x7g80gb_impossible", slices: mig, claims: profiles("7g.80gb", 9)},
		{name: "MIG_16x3g40gb_1x1g20gb_impossible", slices: mig, claims: profiles("3g.40gb", 16, "1g.20gb", 1)},
	}
}

// BenchmarkAllocate measures one Allocate call on one node: upstream's and ours in
// the same run, on devices as a real driver publishes them.
func BenchmarkAllocate(bm *testing.B) {
	for _, c := range benchmarkCases() {
		for _, implementation := range implementations {
			if c.tooLong && implementation.name == "upstream" {
				continue
			}
			bm.Run(fmt.Sprintf("table=warm/case=%s/impl=%s", c.name, implementation.name), func(bm *testing.B) {
				c.run(bm, implementation.create)
			})
		}
	}
}

func (c benchmarkCase) run(bm *testing.B, create newAllocator) {
	classes := classList(b.Class("gpu", isGPU), b.Class("mig", isMIG))
	a, err := create(bm.Context(), defaultFeatures, nothingAllocated(), classes, c.slices, cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}))
	require.NoError(bm, err)
	node := b.Node(*c.slices[0].Spec.NodeName)
	ctx := bm.Context()
	_, err = a.Allocate(ctx, node, c.claims) // A warm-up call.
	require.NoError(bm, err)
	bm.ReportAllocs()
	for bm.Loop() {
		results, err := a.Allocate(ctx, node, c.claims)
		if err != nil || c.fits != (results != nil) {
			bm.Fatalf("got %d results, error %v", len(results), err)
		}
	}
}

// BenchmarkOddClaim measures the maximum cost of an attempt to schedule a pod: a claim with too many
// combinations of devices to try them all, on 5,000 nodes, one after the other.
func BenchmarkOddClaim(bm *testing.B) {
	c, claim := infeasible()
	task, site := c.solver().Prepare(objects([]*b.ClaimBuilder{claim})), c.site()
	const nodes = 5000
	for bm.Loop() {
		ctx := allocator.WithSteps(bm.Context(), allocator.NewSteps(20*allocator.DefaultStepBudget, nodes))
		for range nodes {
			outcome, err := task.Check(ctx, site)
			if err != nil || !outcome.GaveUp {
				bm.Fatalf("the search came to an end, error %v", err)
			}
			outcome.Release()
		}
	}
}

func requestsOf(counts ...int64) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{gpuClaim(counts...).Obj()}
}

func gpuClaim(counts ...int64) *b.ClaimBuilder {
	var requests []*b.RequestBuilder
	for i, count := range counts {
		requests = append(requests, b.Request(fmt.Sprintf("r%d", i), "gpu").Count(count))
	}
	return b.Claim("claim", requests...)
}

func onOneNUMANode(count int64) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{gpuClaim(count).Match("gpu.nvidia.com/numa").Obj()}
}

// profiles asks for numbers of MIG partitions: pairs of profile and count.
func profiles(pairs ...any) []*resourceapi.ResourceClaim {
	var requests []*b.RequestBuilder
	for i := 0; i < len(pairs); i += 2 {
		requests = append(requests, b.Request(fmt.Sprintf("r%d", i/2), "mig").Count(int64(pairs[i+1].(int))).
			Where(fmt.Sprintf(`device.attributes["gpu.nvidia.com"].profile == %q`, pairs[i])))
	}
	return []*resourceapi.ResourceClaim{b.Claim("claim", requests...).Obj()}
}
