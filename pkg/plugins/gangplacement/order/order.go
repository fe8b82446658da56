// Package order has the order of pods and groups in the scheduling queue, and since when gangs are known
// that are groups by a label only.
package order

import (
	"cmp"
	"time"
)

// Entity is what waits in the scheduling queue, as far as the order depends on it: a pod, or a PodGroup of
// scheduling.k8s.io with all its pods.
type Entity struct {
	Priority int32
	// Time is since when it waits: that of its group, if it is a pod of one.
	Time time.Time
	// Group is "namespace/name" of the group that it belongs to, or is; of the pod, if it has none.
	Group string
	// InGroup is true for pods of groups.
	InGroup bool
	// Queued is when it got into the queue, and Name "namespace/name" of itself.
	Queued time.Time
	Name   string
}

// Less reports whether the scheduler tries a before b: by priority, then whoever waits for longer. Pods of
// a group have the time of the group, and therefore stand together if they have the same priority. It is a
// strict weak ordering, because it compares field by field. It needs that no field changes as long as the
// entity is in the queue.
func Less(a, b Entity) bool {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.Time.Compare(b.Time),
		cmp.Compare(a.Group, b.Group),
		compareBool(a.InGroup, b.InGroup), // A pod may be called like a group.
		a.Queued.Compare(b.Queued),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
