package fleet

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// SharedNIC returns a NIC of 400 Gbit/s that any number of claims can share (KEP-5075). A claim gets 50 by default;
// more is given in steps of 50.
func SharedNIC(pool string, index int) *builder.DeviceBuilder {
	step := resource.MustParse("50")
	return builder.Device(fmt.Sprintf("nic-%d", index)).Shared().
		Attr("uuid", deviceUUID("nic", pool, index)).
		Capacity("bandwidth", "400").
		Policy("bandwidth", resourceapi.CapacityRequestPolicy{
			Default:    &step,
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &step, Max: ptr.To(resource.MustParse("400")), Step: &step},
		})
}

// PartitionedGPU returns the slices of a node with one GPU of 80 GiB that can be allocated whole, as halves or as
// quarters (KEP-4815). The attribute "partition" names the kind of a device.
func PartitionedGPU(driver, node string) []*builder.SliceBuilder {
	const gpu = "gpu-0"
	partition := func(name, kind, memory string) *builder.DeviceBuilder {
		return builder.Device(name).Attr("partition", kind).Consumes(gpu, "memory", memory)
	}
	return []*builder.SliceBuilder{
		LocalSlice(driver, node).Part(0, 2).Counters(gpu, "memory", "80Gi"),
		LocalSlice(driver, node,
			partition("whole", "whole", "80Gi"),
			partition("half-0", "half", "40Gi"),
			partition("half-1", "half", "40Gi"),
			partition("quarter-0", "quarter", "20Gi"),
			partition("quarter-1", "quarter", "20Gi"),
			partition("quarter-2", "quarter", "20Gi"),
			partition("quarter-3", "quarter", "20Gi"),
		).Part(1, 2),
	}
}
