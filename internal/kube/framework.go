package kube

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
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

// PodEvent is an event of the scheduling queue about a pod, and the two versions of the pod that hints get: *v1.Pod or nil.
type PodEvent struct {
	fwk.ClusterEvent
	Before, After any
}

// PodEvents returns the events of the scheduling queue that an event about a pod stands for, except for deletions, as other pods hear
// of it. before and after are the API server's versions, nil if there was none. A pod that has ended counts as gone, as in the queue.
func PodEvents(before, after *v1.Pod) (events []PodEvent) {
	if before != nil && podutil.IsPodTerminal(before) {
		before = nil
	}
	if after != nil && podutil.IsPodTerminal(after) {
		after = nil
	}
	resource := func(pod *v1.Pod) fwk.EventResource {
		if pod.Spec.NodeName == "" {
			return fwk.UnscheduledPod
		}
		return fwk.AssignedPod
	}
	switch {
	case after == nil:
		return nil
	case before == nil, resource(before) != resource(after):
		return []PodEvent{{fwk.ClusterEvent{Resource: resource(after), ActionType: fwk.Add}, nil, after}}
	}
	for _, event := range framework.PodSchedulingPropertiesChange(after, before, false) {
		events = append(events, PodEvent{event, before, after})
	}
	return events
}

// Covers reports whether a plugin that has registered an event hears of another one.
func Covers(registered, happened fwk.ClusterEvent) bool {
	return framework.MatchClusterEvents(registered, happened)
}
