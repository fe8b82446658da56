package simulation

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// cpus is the theme of histories with devices that stand for CPUs of their node (KEP-5517).
	cpus = "devices of CPUs"
	// cpusDriver publishes these devices: a pool for each node, with the node's name.
	cpusDriver = "cpus.example.com"
	// cpusEach is the number of CPUs that each of them stands for. Nodes have 16, and pods request 1 or 12 besides.
	cpusEach = 3
)

func cpuOf(i int) *builder.DeviceBuilder {
	return builder.Device(fmt.Sprintf("cpus-%d", i)).Modify(func(device *resourceapi.Device) {
		device.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{
			v1.ResourceCPU: {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: resource.NewQuantity(cpusEach, resource.DecimalSI)}},
		}
	})
}

func setupCPUs(g *generator) { g.setupDriver(cpus, "cpus", g.publishCPUs) }

func changeCPUs(g *generator) {
	g.changeDevices(cpusDriver, g.publishCPUs, func() string { return fmt.Sprintf("cpus-%d", g.random.IntN(3)) })
}

// publishCPUs has the driver replace the devices of a node, with one more or less than before.
func (g *generator) publishCPUs(node string, after time.Duration) {
	generation, count := g.generationOf(cpusDriver+"/"+node), 2+g.random.IntN(5)
	slice := sliceOfCPUs(node, generation, count)
	g.later(after, func(w *World) { w.putSlice(slice.Obj()) }, "publish %d devices of CPUs of %s in generation %d", count, node, generation)
}

// sliceOfCPUs returns the slice with so many devices of a node.
func sliceOfCPUs(node string, generation int64, count int) *builder.SliceBuilder {
	var devices []*builder.DeviceBuilder
	for i := range count {
		devices = append(devices, cpuOf(i))
	}
	return sliceOf(cpusDriver, node, 0, generation, 1).Devices(devices...)
}

// checkCPUs: when a pod is bound, its status says for how many CPUs the devices of a claim stand. The kubelet and all schedulers rely on it.
func (w *World) checkCPUs(pod *v1.Pod, claim *resourceapi.ResourceClaim) {
	if pod.Spec.SchedulerName == foreign {
		return // It does not know such devices.
	}
	want, got := int64(0), int64(0)
	if allocation := claim.Status.Allocation; allocation != nil {
		for i := range allocation.Devices.Results {
			if allocation.Devices.Results[i].Driver == cpusDriver {
				want += cpusEach
			}
		}
	}
	for _, status := range pod.Status.NodeAllocatableResourceClaimStatuses {
		if status.ResourceClaimName == claim.Name && len(status.Mapping) == 1 {
			if amount := status.Mapping[0].Quantity; amount != nil {
				got = amount.Value()
			}
		}
	}
	if got != want {
		w.fail("pod %s is bound with devices of claim %s that stand for %d CPUs, and its status says %d", pod.Name, claim.Name, want, got)
	}
}
