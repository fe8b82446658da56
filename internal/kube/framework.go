package kube

import (
	"fmt"

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

// Stored returns what is stored in the state of a scheduling cycle under a key, the zero value if nothing is. The error
// says that another plugin has stored something else there.
func Stored[T fwk.StateData](state stored, key fwk.StateKey) (found T, err error) {
	data, err := state.Read(key)
	if err != nil {
		return found, nil // Nothing is.
	}
	found, ok := data.(T)
	if !ok {
		return found, fmt.Errorf("the state of a scheduling cycle has something else under %s than what was stored there", key)
	}
	return found, nil
}

// stored is the part that the states of pods, PodGroups and placements have in common.
type stored interface {
	Read(fwk.StateKey) (fwk.StateData, error)
}

// NewCycleState returns an empty state for a scheduling cycle of one pod.
func NewCycleState() fwk.CycleState { return framework.NewCycleState() }
