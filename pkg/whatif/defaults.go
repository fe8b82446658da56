package whatif

import (
	v1 "k8s.io/api/core/v1"
)

// Objects from a server have defaults in fields that their authors left empty. Objects from files
// have not.

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
