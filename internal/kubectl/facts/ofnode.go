package facts

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Taking is an amount of a resource of its node that a device stands for, or that its users need (KEP-5517).
type Taking struct {
	Resource v1.ResourceName
	// Amount says also what it is for, if not for the device.
	Amount string
}

// OfNode returns what a device takes of its node, by resource.
func OfNode(device *resourceapi.Device) []Taking {
	var all []Taking
	for _, name := range slices.Sorted(maps.Keys(device.NodeAllocatableResources)) {
		takes := device.NodeAllocatableResources[name]
		add := func(format string, args ...any) { all = append(all, Taking{name, fmt.Sprintf(format, args...)}) }
		if m := takes.Mapping; m != nil && m.DeviceMultiplier != nil {
			add("%s", m.DeviceMultiplier)
		} else if m != nil && m.CapacityKey != nil {
			factor := "1"
			if m.CapacityMultiplier != nil {
				factor = m.CapacityMultiplier.String()
			}
			add("%s per %s", factor, *m.CapacityKey)
		}
		if o := takes.Overhead; o != nil && o.PerPod != nil {
			add("%s more per pod", o.PerPod)
		}
		if o := takes.Overhead; o != nil && o.PerContainer != nil {
			add("%s more per container", o.PerContainer)
		}
	}
	return all
}
