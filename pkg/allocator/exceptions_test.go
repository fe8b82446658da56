package allocator_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// exceptions are all cases in which this allocator deliberately differs from upstream 1.37.2. Each has a test below
// with both answers. Comparisons do not skip them: they ask upstream a changed question whose answer equals ours.
var exceptions = []struct {
	name, reference string
	forUpstream     func(scenario) scenario
}{
	{
		name:        "shares are in use although DRAConsumableCapacity is off",
		reference:   "KEP-5075, TestSharesAreInUseWithoutTheFeature",
		forUpstream: sharedDevicesAsAllocated,
	},
	{
		name:        "a node selector that cannot be parsed makes its pool invalid, not all allocations fail",
		reference:   "kubernetes/kubernetes 141338 in spirit, TestMalformedNodeSelector",
		forUpstream: malformedAsInvalid,
	},
}

// forUpstream returns the scenario that upstream must answer as we answer s.
func (s scenario) forUpstream() scenario {
	for _, exception := range exceptions {
		s = exception.forUpstream(s)
	}
	return s
}

func sharedDevicesAsAllocated(s scenario) scenario {
	if s.features.ConsumableCapacity || len(s.state.AllocatedSharedDeviceIDs) == 0 && len(s.state.AggregatedCapacity) == 0 {
		return s
	}
	s.state.AllocatedDevices = s.state.AllocatedDevices.Clone()
	for id := range s.state.AllocatedSharedDeviceIDs {
		s.state.AllocatedDevices.Insert(id.GetDeviceID())
	}
	for id := range s.state.AggregatedCapacity {
		s.state.AllocatedDevices.Insert(id)
	}
	return s
}

// malformedAsInvalid lets slices contradict themselves instead, on all nodes.
func malformedAsInvalid(s scenario) scenario {
	s.slices = slices.Clone(s.slices)
	for i, slice := range s.slices {
		if !malformed(slice) || !s.features.PartitionableDevices && len(slice.Spec.SharedCounters) > 0 {
			continue // Such a slice is ignored.
		}
		slice = slice.DeepCopy()
		slice.Spec.NodeSelector, slice.Spec.PerDeviceNodeSelection, slice.Spec.AllNodes = nil, nil, ptr.To(true)
		if sets := slice.Spec.SharedCounters; len(sets) > 0 {
			slice.Spec.SharedCounters = append(sets, sets[0])
		} else {
			slice.Spec.Devices = append(slice.Spec.Devices, slice.Spec.Devices[0])
		}
		s.slices[i] = slice
	}
	return s
}

// TestMalformedNodeSelector uses a slice whose node selector cannot be parsed. Upstream then allocates
// nothing on any node for any claim; ours leaves out the slice's pool.
func TestMalformedNodeSelector(t *testing.T) {
	slice := b.Slice("q").OnLabeled("zone", "1").Devices(gpus(1)...).Modify(func(s *resourceapi.ResourceSlice) { makeMalformed(s.Spec.NodeSelector) })
	s := dropInCase(onNode("p", gpus(1)...), slice)
	_, err := s.run(t.Context(), structured.NewAllocator, newCache())
	require.Equal(t, "fatal", errorClass(err))

	ours, err := s.run(t.Context(), allocator.New, newCache())
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/gpu-0"}, chosen(ours[0]))

	s.claims = objects([]*b.ClaimBuilder{wants(2)})
	_, err = s.run(t.Context(), allocator.New, newCache())
	require.Equal(t, "only this node", errorClass(err))

	diff, _ := s.compare(t.Context(), newCache())
	require.Empty(t, diff)
}

// TestSharesAreInUseWithoutTheFeature uses a device with a share from the time when DRAConsumableCapacity was
// on. Upstream, with the feature off, allocates the whole device to another claim as well; we never allocate
// a device in use.
func TestSharesAreInUseWithoutTheFeature(t *testing.T) {
	s := dropInCase(onNode("p", gpus(2)...))
	share := types.UID("share")
	s.state.AllocatedSharedDeviceIDs = sets.New(structured.MakeSharedDeviceID(structured.MakeDeviceID(b.Driver, "p", "gpu-0"), &share))

	upstream, err := s.run(t.Context(), structured.NewAllocator, newCache())
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/gpu-0"}, chosen(upstream[0]))

	ours, err := s.run(t.Context(), allocator.New, newCache())
	require.NoError(t, err)
	require.Equal(t, []string{"gpu=p/gpu-1"}, chosen(ours[0]))

	diff, _ := s.compare(t.Context(), newCache())
	require.Empty(t, diff)
}
