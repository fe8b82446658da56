package objective

import (
	"encoding/binary"
	"math"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// mostOfNode bounds what one device takes, so that sums do not overflow.
const mostOfNode = math.MaxInt64 >> 16

// TakenOfNode returns what the use of a device takes of its node's CPU and memory (KEP-5517). consumed is the share of a shareable
// device, else nil. An overhead for each container counts once: a search does not know the containers.
func TakenOfNode(device *inventory.Device, consumed capacity.Amounts) (milliCPU, memory int64) {
	cpu := taken(device.NodeAllocatableResources[v1.ResourceCPU], consumed)
	bytes := taken(device.NodeAllocatableResources[v1.ResourceMemory], consumed)
	return min(quantity.MilliValue(cpu), mostOfNode), min(quantity.Value(bytes), mostOfNode)
}

func taken(of resourceapi.NodeAllocatableResource, consumed capacity.Amounts) (sum resource.Quantity) {
	if m := of.Mapping; m != nil {
		if key := ptr.Deref(m.CapacityKey, ""); key == "" {
			sum = ptr.Deref(m.DeviceMultiplier, sum)
		} else if sum = consumed[key]; m.CapacityMultiplier != nil {
			sum = quantity.Product(sum, *m.CapacityMultiplier)
		}
	}
	if o := of.Overhead; o != nil {
		sum = quantity.Sum(sum, ptr.Deref(o.PerPod, resource.Quantity{}))
		sum = quantity.Sum(sum, ptr.Deref(o.PerContainer, resource.Quantity{}))
	}
	return sum
}

// AppendOfNode encodes what TakenOfNode depends on, besides the consumed share.
func AppendOfNode(b []byte, device *inventory.Device) []byte {
	milliCPU, memory := TakenOfNode(device, nil)
	b = binary.AppendVarint(binary.AppendVarint(b, milliCPU), memory)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		m := device.NodeAllocatableResources[name].Mapping
		if m == nil || ptr.Deref(m.CapacityKey, "") == "" {
			continue
		}
		b = append(append(append(b, name...), '='), *m.CapacityKey...)
		if m.CapacityMultiplier != nil {
			b = binary.AppendVarint(append(b, '*'), quantity.MilliValue(*m.CapacityMultiplier))
		}
	}
	return b
}
