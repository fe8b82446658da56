package checker

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// takenOfNode returns the resources of the node that the devices of an allocation stand for (KEP-5517), nil if there are none. It knows
// devices that stand for a fixed amount.
func (s *snapshot) takenOfNode(allocation *resourceapi.AllocationResult) (list corev1.ResourceList) {
	if allocation == nil {
		return nil
	}
	for i := range allocation.Devices.Results {
		device, published := s.device(deviceOf(&allocation.Devices.Results[i]))
		if !published {
			continue
		}
		for name, takes := range device.NodeAllocatableResources {
			if takes.Mapping == nil || takes.Mapping.DeviceMultiplier == nil {
				continue
			}
			if list == nil {
				list = corev1.ResourceList{}
			}
			sum := list[name]
			sum.Add(*takes.Mapping.DeviceMultiplier)
			list[name] = sum
		}
	}
	return list
}

// takenTogether returns the resources of the node that the devices of pods on it stand for, with the allocations that the search has
// found. It returns false if two pods would share such devices, which are for one pod, or if they would serve extended resources.
func (s *search) takenTogether(pods []*candidate, node *corev1.Node, got map[*resourceapi.ResourceClaim]*resourceapi.AllocationResult) (all []corev1.ResourceList, possible bool) {
	user := map[*resourceapi.ResourceClaim]*candidate{}
	for _, c := range pods {
		for _, claim := range c.on(node, s.oracle, len(s.pods) > 1).claims {
			allocation := claim.Status.Allocation
			if allocation == nil {
				allocation = got[claim]
			}
			list := s.takenOfNode(allocation)
			if list == nil {
				continue
			}
			if claim.UID == c.pod.UID { // Extended resources get no such devices: nothing would account for these.
				return nil, false
			}
			if user[claim] != nil && user[claim] != c || len(claim.Status.ReservedFor) > 0 && !reservedFor(claim, c.pod) {
				return nil, false
			}
			if user[claim] == nil {
				all = append(all, list)
			}
			user[claim] = c
		}
	}
	return all, true
}
