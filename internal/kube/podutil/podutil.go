// Package podutil has Kubernetes' helpers for the status of pods, and the order of pods of one priority. It is apart from package kube
// because the guard, which knows no scheduler, needs it.
package podutil

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/v1/pod"
)

// IsPodTerminal reports whether all containers of a pod have ended for good.
func IsPodTerminal(p *v1.Pod) bool { return pod.IsPodTerminal(p) }

// GetPodCondition returns a condition of a pod and its index, nil and -1 if the pod does not have it.
func GetPodCondition(status *v1.PodStatus, conditionType v1.PodConditionType) (int, *v1.PodCondition) {
	return pod.GetPodCondition(status, conditionType)
}

// UpdatePodCondition adds or replaces a condition in a status. It reports whether that changed the status.
func UpdatePodCondition(status *v1.PodStatus, condition *v1.PodCondition) bool {
	return pod.UpdatePodCondition(status, condition)
}

// ObservedGeneration returns the generation that a condition of this type must say it has observed (KEP-5067).
func ObservedGeneration(p *v1.Pod, conditionType v1.PodConditionType) int64 {
	return pod.CalculatePodConditionObservedGeneration(&p.Status, p.Generation, conditionType)
}

// Preempts reports whether others may be evicted for a pod, as far as the pod says.
func Preempts(p *v1.Pod) bool {
	return p.Spec.PreemptionPolicy == nil || *p.Spec.PreemptionPolicy != v1.PreemptNever
}

// Older compares pods by creation time, then by name.
func Older(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
