package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// ofNode makes a device one that takes resources of the node (KEP-5517).
func ofNode(names ...v1.ResourceName) func(*resourceapi.Device) {
	return func(device *resourceapi.Device) {
		device.NodeAllocatableResources = make(map[v1.ResourceName]resourceapi.NodeAllocatableResource)
		for _, name := range names {
			device.NodeAllocatableResources[name] = resourceapi.NodeAllocatableResource{
				Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr.To(resource.MustParse("1"))}}
		}
	}
}

func TestDevicesOfNode(t *testing.T) {
	t.Parallel()
	wants := func(request *b.RequestBuilder) []*b.ClaimBuilder { return []*b.ClaimBuilder{b.Claim("c", request)} }
	c := cluster{slices: []*b.SliceBuilder{onNode("p",
		b.Device("cpu").Modify(ofNode(v1.ResourceMemory, v1.ResourceCPU)), b.Device("gpu"))}}
	solve := func(refuse bool, claims []*b.ClaimBuilder) *allocator.Outcome {
		solver := c.solver()
		solver.RefuseOfNode = refuse
		outcome, err := solver.Prepare(objects(claims)).Solve(t.Context(), c.site())
		require.NoError(t, err)
		return outcome
	}
	one, both, all := wants(b.Request("r", "gpu")), wants(b.Request("r", "gpu").Count(2)), wants(b.Request("r", "gpu").All())
	admin := wants(b.Request("r", "gpu").All().Admin())
	require.Equal(t, []string{"r=p/cpu"}, chosen(solve(false, one).Results[0]))
	require.Equal(t, []string{"r=p/gpu"}, chosen(solve(true, one).Results[0]), "others can be had")
	for name, claims := range map[string][]*b.ClaimBuilder{"both": both, "all": all, "all, for administrators": admin} {
		require.True(t, solve(false, claims).Fits(), name)
		outcome := solve(true, claims)
		require.False(t, outcome.Fits(), name)
		require.Contains(t, outcome.Reason(),
			"asked; 1 free; 1 stands for or needs resources of the node that this scheduler cannot account for (cpu; memory)", name)
		require.Contains(t, outcome.Explain().String(), "1 stands for or needs resources of the node that this scheduler cannot account for: cpu, memory", name)
	}
}
