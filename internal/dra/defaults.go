package dra

import resourceapi "k8s.io/api/resource/v1"

// Defaulted returns a claim with the defaults that an API server fills in. Claims from files lack them.
func Defaulted(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range claim.Spec.Devices.Requests {
		if lacksDefaults(&claim.Spec.Devices.Requests[i]) {
			claim = claim.DeepCopy()
			for i := range claim.Spec.Devices.Requests {
				setDefaults(&claim.Spec.Devices.Requests[i])
			}
			return claim
		}
	}
	return claim
}

func lacksDefaults(request *resourceapi.DeviceRequest) bool {
	if exact := request.Exactly; exact != nil && isBare(exact.AllocationMode, exact.Count, exact.Tolerations) {
		return true
	}
	for i := range request.FirstAvailable {
		if sub := &request.FirstAvailable[i]; isBare(sub.AllocationMode, sub.Count, sub.Tolerations) {
			return true
		}
	}
	return false
}

func isBare(mode resourceapi.DeviceAllocationMode, count int64, tolerations []resourceapi.DeviceToleration) bool {
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			return true
		}
	}
	return mode == "" || mode == resourceapi.DeviceAllocationModeExactCount && count == 0
}

func setDefaults(request *resourceapi.DeviceRequest) {
	if exact := request.Exactly; exact != nil {
		complete(&exact.AllocationMode, &exact.Count, exact.Tolerations)
	}
	for i := range request.FirstAvailable {
		sub := &request.FirstAvailable[i]
		complete(&sub.AllocationMode, &sub.Count, sub.Tolerations)
	}
}

func complete(mode *resourceapi.DeviceAllocationMode, count *int64, tolerations []resourceapi.DeviceToleration) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
		}
	}
}
