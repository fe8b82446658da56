package allocator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/pkg/builder"
)

// gpuNode is a node with n GPUs on two NUMA nodes.
func gpuNode(n int) []*resourceapi.ResourceSlice {
	var devices []*b.DeviceBuilder
	for i := range n {
		devices = append(devices, b.Device(fmt.Sprintf("gpu-%03d", i)).
			Attr("model", "big").Attr("numa", i*2/n).Attr("index", i).Capacity("memory", "80Gi"))
	}
	return []*resourceapi.ResourceSlice{b.NodeSlice("node-0", devices...).Obj()}
}

func single(count int64) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{b.Claim("claim", b.Request("gpu", "big").Count(count)).Obj()}
}

func onOneNUMANode(count int64) []*resourceapi.ResourceClaim {
	claim := b.Claim("claim", b.Request("gpu", "big").Count(count)).Match("gpu.example.com/numa")
	return []*resourceapi.ResourceClaim{claim.Obj()}
}

func requestsOf(counts ...int64) []*resourceapi.ResourceClaim {
	var requests []*b.RequestBuilder
	for i, count := range counts {
		requests = append(requests, b.Request(fmt.Sprintf("r%d", i), "big").Count(count))
	}
	return []*resourceapi.ResourceClaim{b.Claim("claim", requests...).Obj()}
}

// BenchmarkAllocate measures one Allocate call on one node, upstream's and ours in
// the same run. Upstream is left out where it needs seconds or more.
func BenchmarkAllocate(bm *testing.B) {
	seventeen := make([]int64, 17)
	for i := range seventeen {
		seventeen[i] = 1
	}
	cases := []struct {
		name    string
		slices  []*resourceapi.ResourceSlice
		claims  []*resourceapi.ResourceClaim
		fits    bool
		tooLong bool // for upstream
	}{
		{name: "1_of_8", slices: gpuNode(8), claims: single(1), fits: true},
		{name: "8_of_8", slices: gpuNode(8), claims: single(8), fits: true},
		{name: "4_of_8_on_one_NUMA_node", slices: gpuNode(8), claims: onOneNUMANode(4), fits: true},
		{name: "16_of_128", slices: gpuNode(128), claims: single(16), fits: true},
		{name: "9_of_8_impossible", slices: gpuNode(8), claims: single(9)},
		{name: "5_of_8_on_one_NUMA_node_impossible", slices: gpuNode(8), claims: onOneNUMANode(5)},
		{name: "8_and_9_of_16_impossible", slices: gpuNode(16), claims: requestsOf(8, 9), tooLong: true},
		{name: "17_times_1_of_16_impossible", slices: gpuNode(16), claims: requestsOf(seventeen...), tooLong: true},
		{name: "MIG_7_1g10gb", slices: migNode(8), claims: migClaim("1g.10gb", 7), fits: true},
		{name: "MIG_8_3g40gb_and_8_2g20gb", slices: migNode(8), claims: migClaim("3g.40gb", 8, "2g.20gb", 8), fits: true},
		{name: "MIG_9_7g80gb_impossible", slices: migNode(8), claims: migClaim("7g.80gb", 9)},
		{name: "MIG_16_3g40gb_and_1_1g20gb_impossible", slices: migNode(8), claims: migClaim("3g.40gb", 16, "1g.20gb", 1)},
	}
	for _, c := range cases {
		s := scenario{
			features: someFeatures, node: b.Node("node-0"), slices: c.slices, claims: c.claims,
			classes: classList(b.Class("big", isBig), b.Class("any")),
			state: structured.AllocatedState{
				AllocatedDevices:         sets.New[structured.DeviceID](),
				AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
				AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
			},
		}
		for name, create := range map[string]newAllocator{"upstream": structured.NewAllocator, "ours": allocator.New} {
			if c.tooLong && name == "upstream" {
				continue
			}
			bm.Run(c.name+"/"+name, func(bm *testing.B) { s.benchmark(bm, create, c.fits) })
		}
	}
}

func (s scenario) benchmark(bm *testing.B, create newAllocator, fits bool) {
	a, err := create(bm.Context(), s.features, s.state, s.classes, s.slices, cel.NewCache(10, cel.Features{}))
	require.NoError(bm, err)
	bm.ReportAllocs()
	for bm.Loop() {
		results, err := a.Allocate(bm.Context(), s.node, s.claims)
		require.NoError(bm, err)
		require.Equal(bm, fits, results != nil)
	}
}
