package hold

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// history holds how long the pods of a controller, such as a Job, have run that have succeeded, by controller and pod. Pods that the API
// server does not have any more are not in it, so that each instance of the scheduler knows the same, also after a restart.
type history map[types.UID]*runs

// runs holds the run times of the pods of one controller.
type runs struct {
	byPod map[types.UID]time.Duration
	// longest is the longest of them, 0 if that has to be found out again.
	longest time.Duration
}

// note handles an event about a pod: before and after are the API server's versions, nil if there was none.
func (h history) note(before, after *v1.Pod) {
	if before != nil && (after == nil || after.UID != before.UID) {
		h.forget(before)
	}
	if after == nil {
		return
	}
	if took := runTime(after); took > 0 {
		if owner := controllerOf(after); owner != "" {
			if h[owner] == nil {
				h[owner] = &runs{byPod: make(map[types.UID]time.Duration)}
			}
			h[owner].byPod[after.UID], h[owner].longest = took, 0
		}
	}
}

func (h history) forget(pod *v1.Pod) {
	owner := controllerOf(pod)
	of := h[owner]
	if of == nil {
		return
	}
	delete(of.byPod, pod.UID)
	of.longest = 0
	if len(of.byPod) == 0 {
		delete(h, owner)
	}
}

// usual returns the longest time that a pod of the same controller has run, 0 if that is not known.
func (h history) usual(pod *v1.Pod) time.Duration {
	of := h[controllerOf(pod)]
	if of == nil {
		return 0
	}
	if of.longest == 0 {
		for _, took := range of.byPod {
			of.longest = max(of.longest, took)
		}
	}
	return of.longest
}

// controllerOf returns the UID of the pod's controller, "" if it has none.
func controllerOf(pod *v1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return ""
}

// runTime returns how long a pod has run that has succeeded, 0 if it has not or if its node did not say.
func runTime(pod *v1.Pod) time.Duration {
	if pod.Status.Phase != v1.PodSucceeded || pod.Status.StartTime == nil {
		return 0
	}
	var end time.Time
	for i := range pod.Status.ContainerStatuses {
		if ended := pod.Status.ContainerStatuses[i].State.Terminated; ended != nil && ended.FinishedAt.After(end) {
			end = ended.FinishedAt.Time
		}
	}
	return max(end.Sub(pod.Status.StartTime.Time), 0)
}
