package kube

import (
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// PodGroup has the version of the API in which kube-scheduler reads PodGroups. 1.38 is expected to read
// scheduling.k8s.io/v1.
type PodGroup = schedulingapi.PodGroup

// PodGroupVersion is the version of PodGroup.
var PodGroupVersion = schedulingapi.SchemeGroupVersion

// PodGroupPriority returns the priority of a PodGroup, 0 if it has none.
func PodGroupPriority(group *PodGroup) int32 { return util.PodGroupPriority(group) }

// PodGroupCycleState returns the state that the pods of a PodGroup share while it is being scheduled, nil if the pod is
// scheduled alone. 1.38 renames the method to GetPodGroupCycleState (kubernetes/kubernetes#140986).
func PodGroupCycleState(pod fwk.CycleState) fwk.PodGroupCycleState {
	return pod.GetPodGroupSchedulingCycle()
}

// InPodGroupCycle reports whether a pod is being scheduled with its PodGroup.
func InPodGroupCycle(pod fwk.CycleState) bool { return pod.IsPodGroupSchedulingCycle() }

// PlacementCycleState returns the state that the pods of a PodGroup share while a placement is being tried, nil if no
// placement is. 1.38 clears it before a pod is bound, as it does with the state of the PodGroup.
func PlacementCycleState(pod fwk.CycleState) fwk.PlacementCycleState {
	return pod.GetPlacementCycleState()
}

// PodGroupCycleStateOf returns the state of the PodGroup that a placement is for. 1.38 renames the method like that of
// PodGroupCycleState.
func PodGroupCycleStateOf(placement fwk.PlacementCycleState) fwk.PodGroupCycleState {
	return placement.GetPodGroupSchedulingCycle()
}
