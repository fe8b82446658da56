package kube

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// NewPodInfo returns a pod with its affinity terms parsed. It fails if one of them is not valid.
func NewPodInfo(pod *v1.Pod) (fwk.PodInfo, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// NewCycleState returns an empty state for a scheduling cycle of one pod.
func NewCycleState() fwk.CycleState { return framework.NewCycleState() }
