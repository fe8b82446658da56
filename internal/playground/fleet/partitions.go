package fleet

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// SharedNIC is a NIC of 400 Gbit/s that any number of claims can share (KEP-5075). Who
// does not say how much bandwidth it wants gets 50; more is given in steps of 50.
func SharedNIC(pool string, index int) resourceapi.Device {
	return resourceapi.Device{
		Name:                     fmt.Sprintf("nic-%d", index),
		AllowMultipleAllocations: ptr.To(true),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"uuid": stringAttribute(deviceUUID("nic", pool, index)),
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"bandwidth": {
				Value: resource.MustParse("400"),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{
					Default: ptr.To(resource.MustParse("50")),
					ValidRange: &resourceapi.CapacityRequestPolicyRange{
						Min: ptr.To(resource.MustParse("50")), Max: ptr.To(resource.MustParse("400")), Step: ptr.To(resource.MustParse("50")),
					},
				},
			},
		},
	}
}

// PartitionedGPU are the slices of a node with one GPU of 80 GiB that can be had whole, as
// halves or as quarters (KEP-4815). Attribute "partition" says which a device is.
func PartitionedGPU(driver, node string) []*resourceapi.ResourceSlice {
	const counterSet = "gpu-0"
	partition := func(name, kind, memory string) resourceapi.Device {
		return resourceapi.Device{
			Name:       name,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"partition": stringAttribute(kind)},
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{
				CounterSet: counterSet, Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}},
			}},
		}
	}
	devices := []resourceapi.Device{partition("whole", "whole", "80Gi")}
	for i := range 2 {
		devices = append(devices, partition(fmt.Sprintf("half-%d", i), "half", "40Gi"))
	}
	for i := range 4 {
		devices = append(devices, partition(fmt.Sprintf("quarter-%d", i), "quarter", "20Gi"))
	}
	counters := Part(LocalSlice(driver, node), 0, 2)
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{
		Name: counterSet, Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("80Gi")}},
	}}
	return []*resourceapi.ResourceSlice{counters, Part(LocalSlice(driver, node, devices...), 1, 2)}
}
