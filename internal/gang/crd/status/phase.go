package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

// Next returns the next status of a PodGroup, or the current one if there is nothing to change. One change of phase may
// make another one possible: the caller must write the status and call Next again. Only pods that belong to the group
// count. Next does not modify its arguments.
//
// There are four differences from scheduler-plugins (v0.34):
//   - Its controller also counts pods of other namespaces with the same label value: one tenant's
//     pods could make another tenant's group Running or Failed. That is a mistake, as groups have a namespace.
//   - It does not update the counts while a group is Pending, so they may include pods that are long gone.
//   - There, a group without minMember is Finished before its first pod is created. Here it has a minMember of 1, the
//     smallest valid value.
//   - It ignores a group whose scheduleStartTime is two days after its creation; nothing there sets that field. Here
//     it is set to the time of the last change to Scheduling, and a group may wait for long.
func Next(group *v1alpha1.PodGroup, pods []*v1.Pod, now time.Time) v1alpha1.PodGroupStatus {
	next := group.Status
	if isFinal(next.Phase) {
		return next
	}
	pods = members(group, pods)
	next.Running, next.Succeeded, next.Failed = count(pods, v1.PodRunning), count(pods, v1.PodSucceeded), count(pods, v1.PodFailed)
	next.Phase = phaseAfter(group, int32(len(pods)), &next)
	if next.Phase == v1alpha1.PodGroupScheduling && group.Status.Phase != v1alpha1.PodGroupScheduling {
		next.ScheduleStartTime = metav1.NewTime(now.Truncate(time.Second)) // The API stores whole seconds.
		if group.Status.Phase == v1alpha1.PodGroupPending {
			next.OccupiedBy = cmp.Or(owners(pods), next.OccupiedBy)
		}
	}
	return next
}

func isFinal(phase v1alpha1.PodGroupPhase) bool {
	return phase == v1alpha1.PodGroupFinished || phase == v1alpha1.PodGroupFailed
}

// phaseAfter returns the phase that follows the group's current phase, for a number of pods and the given counts.
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

// members returns the pods that belong to a group, sorted by name.
func members(group *v1alpha1.PodGroup, pods []*v1.Pod) []*v1.Pod {
	var result []*v1.Pod
	for _, pod := range pods {
		if pod.Namespace == group.Namespace && crd.NameOf(pod) == group.Name {
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

// owners returns the owners of the first pod that has any, as a sorted list of "namespace/name" separated by commas; ""
// if no pod has owners. scheduler-plugins writes names, although the field's description says UIDs.
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
