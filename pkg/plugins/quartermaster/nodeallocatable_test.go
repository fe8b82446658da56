package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// cpuNode has a device that stands for a CPU, and a GPU.
func cpuNode(name string) []runtime.Object {
	return []runtime.Object{builder.Node(name), builder.NodeSlice(name,
		builder.Device("cpu").Modify(func(device *resourceapi.Device) {
			device.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{
				v1.ResourceCPU: {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr.To(resource.MustParse("1"))}}}
		}), builder.Device("gpu")).Obj()}
}

// TestNodeAllocatable: the gate decides whether devices that take resources of the node are
// refused or, as by the in-tree plugin without the gate, treated like any other.
func TestNodeAllocatable(t *testing.T) {
	t.Parallel()
	objects := plus(cpuNode("n1"), builder.Class("gpu"), gpus("one", 1).Obj(), gpus("two", 2).Obj(), gpus("late", 1).Obj(),
		with(gpus("allocated", 1).Allocated("n1", "gpu"), onNode("n1")),
		with(gpus("allocated-cpu", 1).Allocated("n1", "cpu"), onNode("n1")))
	t.Run("on", func(t *testing.T) {
		t.Parallel()
		inCluster(t, objects, func(t *testing.T, f *fixture) {
			f.pl.features.EnableDRANodeAllocatableResources, f.pl.solver.RefuseOfNode = true, true
			refused := f.schedule(newPod("sharing", uses("allocated-cpu")))
			require.Equal(t, "PreFilter", refused.phase)
			require.Equal(t, "claim default/allocated-cpu: device gpu.example.com/n1/cpu stands for or needs resources of the node (cpu) "+
				"which this scheduler cannot account for; the pod needs a scheduler with the in-tree plugin or another device", refused.text())
			require.Empty(t, f.schedule(newPod("other", uses("allocated"))).phase, "another device of the pool")

			f.changeClaim("allocated-cpu", deallocate)
			f.changeClaim("allocated", deallocate)
			f.settle()
			require.Contains(t, f.schedule(newPod("both", uses("two"))).reasons["n1"], "resources of the node that this scheduler cannot account for (cpu)")
			require.Empty(t, f.schedule(newPod("p", uses("one"))).phase)
			require.Equal(t, []string{"n1/gpu"}, deviceNames(f.claim("one")))
			require.Contains(t, f.schedule(newPod("late", uses("late"))).reasons["n1"], "resources of the node that this scheduler cannot account for (cpu)")
		})
	})
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		inCluster(t, objects, func(t *testing.T, f *fixture) {
			require.Empty(t, f.schedule(newPod("sharing", uses("allocated-cpu"))).phase)
			f.changeClaim("allocated-cpu", deallocate)
			f.changeClaim("allocated", deallocate)
			f.settle()
			require.Empty(t, f.schedule(newPod("both", uses("two"))).phase)
		})
	})
}
