package kubectl

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// ofNode has a node with devices that stand for its CPUs, and need memory; a pod has one, and another waits.
func ofNode() whatif.Objects {
	o := whatif.Objects{Classes: []*resourceapi.DeviceClass{b.DriverClass(b.Driver)}, Nodes: []*v1.Node{b.Node("node-1")}}
	o.Nodes[0].Status.Allocatable = b.Resources("cpu", "8", "memory", "8Gi", "pods", "20")
	takes := func(cpu resourceapi.NodeAllocatableMapping) func(*resourceapi.Device) {
		return func(device *resourceapi.Device) {
			device.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{
				v1.ResourceCPU: {Mapping: &cpu},
				v1.ResourceMemory: {Overhead: &resourceapi.NodeAllocatableOverhead{
					PerPod: ptr.To(resource.MustParse("1Gi")), PerContainer: ptr.To(resource.MustParse("100Mi"))}},
			}
		}
	}
	socket := takes(resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr.To(resource.MustParse("4"))})
	threads := takes(resourceapi.NodeAllocatableMapping{CapacityKey: ptr.To[resourceapi.QualifiedName]("cores"), CapacityMultiplier: ptr.To(resource.MustParse("2"))})
	o.Slices = append(o.Slices, b.NodeSlice("node-1", b.Device("socket-0").Modify(socket), b.Device("socket-1").Modify(socket),
		b.Device("numa-0").Shared().Capacity("cores", "4").Modify(threads), b.Device("gpu-0")).Obj())
	holding(&o, "runs", "node-1", b.Claim("runs", b.Request("cpus", b.Driver)).Allocated("node-1", "socket-0"), time.Hour)
	o.Pods[0].Status.NodeAllocatableResourceClaimStatuses = []v1.NodeAllocatableResourceClaimStatus{{
		ResourceClaimName: "runs", Mapping: []v1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: ptr.To(resource.MustParse("4"))}}}}
	o.Claims = append(o.Claims, b.Claim("waits", b.Request("cpus", b.Driver)).Obj())
	o.Pods = append(o.Pods, b.Pod("waits", b.Using(b.Uses("waits")...), b.Container("main", "cpu", "1")))
	return o
}

// TestOfNode: the list and explanations say what devices take of their node, and what it has left.
func TestOfNode(t *testing.T) {
	for name, args := range map[string]string{
		"ofnode-list": "list", "ofnode-json": "list -o json", "ofnode-running": "explain runs", "ofnode-waiting": "explain waits",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := run(t, ofNode(), strings.Fields(args)...)
			require.NoError(t, err)
			golden(t, name, text)
		})
	}
}
