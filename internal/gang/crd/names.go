package crd

import (
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// NameOf returns the name of the PodGroup in a pod's label, "" if it has none.
func NameOf(pod *v1.Pod) string { return pod.Labels[v1alpha1.PodGroupLabel] }

// KeyOf returns "namespace/name" of the PodGroup in a pod's label, "" if it has none.
func KeyOf(pod *v1.Pod) string {
	name := NameOf(pod)
	if name == "" {
		return ""
	}
	return pod.Namespace + "/" + name
}
