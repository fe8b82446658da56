package whatif

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Objects from a server have defaults in fields that their authors left empty. Objects from files
// have not.

// defaultedClaim returns a claim as a server would store it.
func defaultedClaim(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
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

// defaultedPod returns a pod as a server would store it, as far as that matters here: with a
// namespace, and with requests for the resources that its containers only limit.
func defaultedPod(pod *v1.Pod) *v1.Pod {
	if pod.Namespace != "" && !anyLimits(pod) {
		return pod
	}
	pod = pod.DeepCopy()
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			requestLimits(&containers[i].Resources)
		}
	}
	return pod
}

// anyLimits reports whether a container of the pod limits a resource that it does not request.
func anyLimits(pod *v1.Pod) bool {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Limits {
				if _, requested := containers[i].Resources.Requests[name]; !requested {
					return true
				}
			}
		}
	}
	return false
}

func requestLimits(resources *v1.ResourceRequirements) {
	for name, limit := range resources.Limits {
		if _, requested := resources.Requests[name]; requested {
			continue
		}
		if resources.Requests == nil {
			resources.Requests = make(v1.ResourceList)
		}
		resources.Requests[name] = limit
	}
}
