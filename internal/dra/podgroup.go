package dra

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1"
)

// PodGroupName returns the name of the PodGroup that a pod belongs to, "" if it has none.
func PodGroupName(pod *v1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

// HasEnded reports whether a pod no longer uses its claims, by the rule of the resource claim controller.
func HasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// IsPod reports whether the consumer of a claim is a pod.
func IsPod(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return consumer.APIGroup == "" && consumer.Resource == "pods"
}

// IsPodGroup reports whether the consumer of a claim is a PodGroup.
func IsPodGroup(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return consumer.APIGroup == schedulingapi.GroupName && consumer.Resource == "podgroups"
}
