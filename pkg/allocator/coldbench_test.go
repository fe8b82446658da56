package allocator_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// snapshot imitates an autoscaler or a quota system: it creates an allocator, asks a few questions, each
// about another node, and discards the allocator.
type snapshot struct {
	name   string
	slices []*resourceapi.ResourceSlice
	nodes  []*v1.Node // asked about, one after the other
	state  structured.AllocatedState
}

// BenchmarkNew measures allocator.New together with the questions that follow. Cold
// snapshots have slices that no allocator has seen before, next snapshots have those of
// the one before.
func BenchmarkNew(bm *testing.B) {
	for _, state := range []string{"cold", "next"} {
		for _, nodes := range []int{100, 1000, 5000} {
			for _, questions := range []int{1, 100} {
				for _, half := range []bool{false, true} {
					for _, implementation := range implementations {
						s := newSnapshot(nodes, questions, half)
						bm.Run(fmt.Sprintf("table=%s/case=%s/impl=%s", state, s.name, implementation.name), func(bm *testing.B) {
							s.run(bm, implementation.create, state == "cold")
						})
					}
				}
			}
		}
	}
}

// newSnapshot has one slice of eight GPUs for each node. If half is set, other claims
// hold every second GPU, the first of each node among them.
func newSnapshot(nodes, questions int, half bool) *snapshot {
	s := &snapshot{name: fmt.Sprintf("%d_nodes,_%d_questions", nodes, questions), state: nothingAllocated()}
	like := gpuNode(8)[0]
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		slice := like.DeepCopy()
		slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = name+"-gpu", ptr.To(name), name
		for j := range slice.Spec.Devices {
			device := &slice.Spec.Devices[j]
			device.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf("GPU-%d-%d", i, j))}
			if half && j%2 == 0 {
				s.state.AllocatedDevices.Insert(structured.MakeDeviceID(slice.Spec.Driver, name, device.Name))
			}
		}
		s.slices = append(s.slices, slice)
	}
	for i := range questions {
		s.nodes = append(s.nodes, b.Node(*s.slices[i*nodes/questions].Spec.NodeName))
	}
	if half {
		s.name += ",_half_allocated"
	}
	return s
}

func nothingAllocated() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

// run measures one snapshot after the other.
func (s *snapshot) run(bm *testing.B, create newAllocator, fresh bool) {
	classes := classList(b.Class("gpu", isGPU))
	celCache := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true})
	claims := requestsOf(1)
	s.ask(bm, create, classes, s.slices[:1], s.nodes[:1], claims, celCache) // Compiles the expression.
	if !fresh {
		s.ask(bm, create, classes, s.slices, s.nodes, claims, celCache)
	}
	bm.ReportAllocs()
	for bm.Loop() {
		published := s.slices
		if fresh {
			bm.StopTimer()
			published = copies(s.slices)
			bm.StartTimer()
		}
		s.ask(bm, create, classes, published, s.nodes, claims, celCache)
	}
}

func (s *snapshot) ask(bm *testing.B, create newAllocator, classes classes, published []*resourceapi.ResourceSlice,
	nodes []*v1.Node, claims []*resourceapi.ResourceClaim, celCache *cel.Cache,
) {
	a, err := create(bm.Context(), defaultFeatures, s.state, classes, published, celCache)
	require.NoError(bm, err)
	for _, node := range nodes {
		results, err := a.Allocate(bm.Context(), node, claims)
		if err != nil || len(results) != 1 {
			bm.Fatalf("got %d results, error %v", len(results), err)
		}
	}
}

// copies returns new slices without a deep copy: devices are identified by their slice. As in a watch, each
// slice has its own memory.
func copies(published []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	result := make([]*resourceapi.ResourceSlice, len(published))
	for i, slice := range published {
		own := *slice
		result[i] = &own
	}
	return result
}

// implementations are what benchmarks compare.
var implementations = []struct {
	name   string
	create newAllocator
}{{"upstream", structured.NewAllocator}, {"ours", allocator.New}}
