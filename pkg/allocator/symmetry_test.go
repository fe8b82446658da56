package allocator_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// symmetric makes a node with GPUs of one kind, each with the same partitions of different sizes. The claim
// wants a number of partitions that just fits, or just does not fit.
func symmetric(rng *rand.Rand) scenario {
	oneIn := func(n int) bool { return rng.Intn(n) == 0 }
	s := scenario{
		features: defaultFeatures, node: b.Node("n"), classes: classList(b.Class("any")),
		state: structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		},
	}
	sizes := make([]int, 2+rng.Intn(3))
	for i := range sizes {
		sizes[i] = 1 + rng.Intn(3)
	}
	interleaved := oneIn(3)
	counters, slice := b.Slice("counters").InPool("p", 1, 2).OnNode("n"), b.Slice("devices").InPool("p", 1, 2).OnNode("n")
	gpus := 2 + rng.Intn(2)
	var devices []*b.DeviceBuilder
	for gpu := range gpus {
		counters.Counters(fmt.Sprint("gpu-", gpu), "memory", "4", "engines", "5")
		for i, size := range sizes {
			name := fmt.Sprintf("gpu-%d-%d", gpu, i)
			devices = append(devices, b.Device(name).Attr("size", size).Attr("parent", gpu).
				Consumes(fmt.Sprint("gpu-", gpu), "memory", fmt.Sprint(size), "engines", fmt.Sprint(1+i%2)))
			if oneIn(8) {
				s.state.AllocatedDevices.Insert(structured.MakeDeviceID(b.Driver, "p", name))
			}
		}
	}
	if interleaved {
		rng.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
	}
	s.slices = []*resourceapi.ResourceSlice{counters.Obj(), slice.Devices(devices...).Obj()}
	var requests []*b.RequestBuilder
	for i := range 1 + rng.Intn(3) {
		request := b.Request(fmt.Sprint("r", i), "any").Count(int64(1 + rng.Intn(3)))
		if !oneIn(4) {
			request.Where(fmt.Sprintf("%s.size == %d", attr, 1+rng.Intn(3)))
		}
		requests = append(requests, request)
	}
	claim := b.Claim("claim", requests...)
	if oneIn(5) {
		claim.Match("gpu.example.com/parent", "r0")
	}
	s.claims = []*resourceapi.ResourceClaim{claim.Obj()}
	return s
}

// TestSymmetricCounterSets compares with upstream on GPUs that are interchangeable until a device of one of them is taken.
func TestSymmetricCounterSets(t *testing.T) {
	celCache, seen := newCache(), map[outcome]int{}
	for seed := range int64(scenarioCount(5_000)) {
		s := symmetric(rand.New(rand.NewSource(seed)))
		diff, result := s.compare(t.Context(), celCache)
		require.Empty(t, diff, "seed %d\n%s", seed, s)
		seen[result]++
	}
	t.Log(seen)
	require.Greater(t, seen[allocated], 100)
	require.Greater(t, seen[impossible], 100)
	require.Zero(t, seen[gaveUp])
}
