package quartermaster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
)

// TestNarrowForExtendedResources: in a full cluster, PreFilter names the nodes with
// devices and those where a device plugin offers the resource, and no others.
func TestNarrowForExtendedResources(t *testing.T) {
	t.Parallel()
	const nodes = 8
	objects := servedNodes(0)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		objects = append(objects, builder.Node(name), builder.NodeSlice(name, builder.Device("gpu-0")).Obj())
		if i > 0 {
			objects = append(objects, gpus("c-"+name, 1).Allocated(name, "gpu-0"))
		}
	}
	inCluster(t, objects, func(t *testing.T, f *fixture) {
		f.pl.narrowing.IsFirst = func() bool { return true }
		names := func(pod *v1.Pod) []string {
			a := f.mustBegin(pod)
			c, err := cycleOf(a.state)
			require.NoError(t, err)
			return sets.List(c.narrowedTo)
		}
		require.Empty(t, names(gpuPod("first", "1")), "a task that was never seen before")
		require.Equal(t, []string{"n0"}, names(gpuPod("p", "1")))

		for _, change := range []runtime.Object{offering("n3", gpuResource, "1"), offering("n4", nicResource, "1")} {
			f.replace(change)
		}
		f.settle()
		require.Equal(t, []string{"n0", "n3"}, names(gpuPod("p", "1")))
		for i := range nodes / 2 {
			f.replace(offering(fmt.Sprintf("n%d", i+3), gpuResource, "1"))
		}
		f.settle()
		require.Empty(t, names(gpuPod("p", "1")), "they are too many")

		// What is left over of an earlier attempt decides where the pod goes.
		pod := gpuPod("again", "1")
		left := with(extendedresource.NewClaim(pod), allocate("n5", "gpu-0"), reservedFor("again"), func(claim *resourceapi.ResourceClaim) {
			claim.Spec.Devices.Requests = extendedresource.RequestsFor(pod, f.pl.extendedResources(pod)).Devices
			claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n7"}}},
			}}}
		})
		f.create(left)
		f.settle()
		require.Equal(t, []string{"n7"}, names(pod))
	})
}
