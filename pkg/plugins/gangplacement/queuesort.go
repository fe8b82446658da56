package gangplacement

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

// Less implements fwk.QueueSortPlugin. Without groups it is the order of PrioritySort.
func (pl *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	return Less(entityOf(a, pl.gangs), entityOf(b, pl.gangs))
}

// A queuedPod is a pod in the queue; a queuedGroup is a PodGroup of scheduling.k8s.io with its pods.
type (
	queuedPod   interface{ GetPodInfo() fwk.PodInfo }
	queuedGroup interface {
		GetNamespace() string
		GetName() string
	}
)

// entityOf returns the sort fields of a queue entry. The time of a PodGroup of scheduling.k8s.io is its own in the
// queue, and starts again after each attempt, like that of a pod.
func entityOf(queued fwk.QueuedEntityInfo, gangs *Gangs) Entity {
	// Round removes the monotonic clock reading, which the times of gangs lack: comparisons with and without it would
	// contradict each other after the wall clock was set.
	e := Entity{Priority: queued.GetPriority(), Queued: queued.GetTimestamp().Round(0)}
	e.Time = e.Queued
	switch q := queued.(type) {
	case queuedPod:
		pod := q.GetPodInfo().GetPod()
		e.Name = keyOf(pod.Namespace, pod.Name)
		e.Group = e.Name
		if gang := crd.KeyOf(pod); gang != "" {
			e.Group, e.InGroup, e.Time = gang, true, gangs.Since(pod)
		}
	case queuedGroup:
		e.Name = keyOf(q.GetNamespace(), q.GetName())
		e.Group = e.Name
	}
	return e
}

func keyOf(namespace, name string) string {
	return types.NamespacedName{Namespace: namespace, Name: name}.String()
}
