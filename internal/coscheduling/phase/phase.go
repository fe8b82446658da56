// Package phase says what the status of a PodGroup of scheduler-plugins is to be, from the group and its pods. The
// phases are those that the PodGroup controller of scheduler-plugins writes, one step at a time, so that who watches
// them sees the same sequence:
//
//	"" → Pending → Scheduling ⇄ Running → Finished
//	        ↖__________↲__________↲  ↘ Failed
//
// It asks no server and no clock.
package phase

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
)

// Next returns the status that a PodGroup is to have next; the one that it has if there is nothing to change. One change
// of phase may make another one possible: whoever writes the status asks again with what was written. Of the pods,
// those count that belong to the group. None of what is given is modified.
//
// There are four differences from scheduler-plugins (v0.34):
//   - Its controller also counts pods of other namespaces that have the same value of the label: one tenant's
//     pods could declare another one's group Running or Failed. That is a mistake, as groups have a namespace.
//   - It leaves the counts as they are while a group is Pending, so that they may be of pods that are long gone.
//   - A group without minMember is Finished there before its first pod is made. Here it has a minMember of 1, the
//     least that the field may be.
//   - It stops for a group whose scheduleStartTime is two days after its creation, which does not happen there as
//     nothing sets that field. Here it is set, to when the group last got to Scheduling, and a group may wait for long.
func Next(group *v1alpha1.PodGroup, pods []*v1.Pod, now time.Time) v1alpha1.PodGroupStatus {
	next := group.Status
	if isFinal(next.Phase) {
		return next
	}
	pods = members(group, pods)
	next.Running, next.Succeeded, next.Failed = count(pods, v1.PodRunning), count(pods, v1.PodSucceeded), count(pods, v1.PodFailed)
	next.Phase = phaseAfter(group, int32(len(pods)), &next)
	if next.Phase == v1alpha1.PodGroupScheduling && group.Status.Phase != v1alpha1.PodGroupScheduling {
		next.ScheduleStartTime = metav1.NewTime(now.Truncate(time.Second)) // The API knows no fractions.
		if group.Status.Phase == v1alpha1.PodGroupPending {
			next.OccupiedBy = cmp.Or(owners(pods), next.OccupiedBy)
		}
	}
	return next
}

func isFinal(phase v1alpha1.PodGroupPhase) bool {
	return phase == v1alpha1.PodGroupFinished || phase == v1alpha1.PodGroupFailed
}

// phaseAfter returns the phase after that of the group, with that many pods and the counts of a status.
func phaseAfter(group *v1alpha1.PodGroup, pods int32, counts *v1alpha1.PodGroupStatus) v1alpha1.PodGroupPhase {
	needed := max(group.Spec.MinMember, 1)
	started := counts.Running + counts.Succeeded
	switch {
	case group.Status.Phase == "", pods < needed:
		return v1alpha1.PodGroupPending
	case group.Status.Phase == v1alpha1.PodGroupPending:
		return v1alpha1.PodGroupScheduling
	case counts.Succeeded >= needed:
		return v1alpha1.PodGroupFinished
	case counts.Failed > 0 && counts.Failed+started >= needed:
		return v1alpha1.PodGroupFailed
	case started >= needed:
		return v1alpha1.PodGroupRunning
	default:
		return v1alpha1.PodGroupScheduling
	}
}

// members returns the pods that belong to a group, by their names.
func members(group *v1alpha1.PodGroup, pods []*v1.Pod) []*v1.Pod {
	var result []*v1.Pod
	for _, pod := range pods {
		if pod.Namespace == group.Namespace && coscheduling.NameOf(pod) == group.Name {
			result = append(result, pod)
		}
	}
	slices.SortFunc(result, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return result
}

func count(pods []*v1.Pod, phase v1.PodPhase) int32 {
	var n int32
	for _, pod := range pods {
		if pod.Status.Phase == phase {
			n++
		}
	}
	return n
}

// owners returns the owners of the first pod that has any, as sorted namespace/name with commas between; "" if no pod has.
// scheduler-plugins writes these, although the field's description says UIDs.
func owners(pods []*v1.Pod) string {
	for _, pod := range pods {
		if len(pod.OwnerReferences) == 0 {
			continue
		}
		var names []string
		for i := range pod.OwnerReferences {
			names = append(names, fmt.Sprintf("%s/%s", pod.Namespace, pod.OwnerReferences[i].Name))
		}
		slices.Sort(names)
		return strings.Join(names, ",")
	}
	return ""
}
