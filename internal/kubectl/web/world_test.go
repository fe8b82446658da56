package web

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// machine is a node with room for pods.
func machine(name string, labels ...string) *v1.Node {
	node := b.Node(name, labels...)
	node.Status.Allocatable = b.Resources("cpu", "8", "memory", "32Gi", "pods", "110")
	return node
}

// objects are two nodes with four GPUs each: gpu-0 of a is allocated, gpu-1 tainted; a pod waits for five.
func objects() whatif.Objects {
	o := whatif.Objects{Classes: []*resourceapi.DeviceClass{b.DriverClass(b.Driver)}}
	for _, name := range []string{"a", "b"} {
		o.Nodes = append(o.Nodes, machine(name, "zone", "zone-"+name))
		var gpus []*b.DeviceBuilder
		for i := range 4 {
			gpu := b.Device(fmt.Sprintf("gpu-%d", i)).Attr("numa", i/2).Capacity("memory", "80Gi")
			if name == "a" && i == 1 {
				gpu.Taint("broken", resourceapi.DeviceTaintEffectNoSchedule)
			}
			gpus = append(gpus, gpu)
		}
		o.Slices = append(o.Slices, b.NodeSlice(name, gpus...).Obj())
	}
	o.Claims = append(o.Claims, b.Claim("held", b.Request("gpu", b.Driver)).Allocated("a", "gpu-0"), b.Claim("five", b.Request("gpu", b.Driver).Count(5)).Obj())
	waiting := b.Pod("waits", b.Using(b.Uses("five")...))
	waiting.Status.Phase = v1.PodPending
	o.Pods = append(o.Pods, waiting)
	return o
}

func shown(t *testing.T, o whatif.Objects) *Map {
	t.Helper()
	m := NewMap("a test")
	show(t, m, o)
	return m
}

func show(t *testing.T, m *Map, o whatif.Objects) {
	t.Helper()
	if err := m.Show(whatif.New(o, whatif.Options{})); err != nil {
		t.Fatal(err)
	}
}

// partitioned is a node with a GPU that publishes itself, two halves and four quarters, one that has
// counters for itself, and one that can be shared.
func partitioned() whatif.Objects {
	devices := []*b.DeviceBuilder{b.Device("whole").Consumes("gpu", "memory", "80Gi")}
	for i := range 2 {
		devices = append(devices, b.Device(fmt.Sprintf("half-%d", i)).Consumes("gpu", "memory", "40Gi"))
	}
	for i := range 4 {
		devices = append(devices, b.Device(fmt.Sprintf("quarter-%d", i)).Consumes("gpu", "memory", "20Gi"))
	}
	devices = append(devices, b.Device("alone").Consumes("other", "memory", "80Gi"))
	devices = append(devices, b.Device("shared").Capacity("memory", "80Gi").Shared())
	share := b.Claim("share", b.Request("gpu", b.Driver)).Allocated("p", "shared")
	result := &share.Status.Allocation.Devices.Results[0]
	id := share.UID
	result.ShareID = &id
	result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("30Gi")}
	return whatif.Objects{
		Nodes:   []*v1.Node{machine("p")},
		Classes: []*resourceapi.DeviceClass{b.DriverClass(b.Driver)},
		Slices: []*resourceapi.ResourceSlice{
			b.Slice("p").InPool("p", 1, 2).OnNode("p").Devices(devices...).Obj(),
			b.Slice("p-counters").InPool("p", 1, 2).OnNode("p").Counters("gpu", "memory", "80Gi").Counters("other", "memory", "80Gi").Obj(),
		},
		Claims: []*resourceapi.ResourceClaim{b.Claim("half", b.Request("gpu", b.Driver)).Allocated("p", "half-1"), share},
	}
}
