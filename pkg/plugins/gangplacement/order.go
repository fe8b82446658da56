package gangplacement

import (
	"cmp"
	"time"
)

// An Entity holds the sort fields of an entry in the scheduling queue: a pod, or a PodGroup of scheduling.k8s.io with
// all its pods.
type Entity struct {
	Priority int32
	// Time is the start of its wait; for a pod of a group it is the group's time.
	Time time.Time
	// Group is "namespace/name" of the group that it belongs to or is, or of the pod itself if it has no group.
	Group string
	// InGroup is true for pods of groups.
	InGroup bool
	// Queued is the time when it was added to the queue, and Name its own "namespace/name".
	Queued time.Time
	Name   string
}

// Less reports whether the scheduler tries a before b: by priority, then by Time, the earliest first. Pods of a group
// have the time of the group, and therefore stay together if they have the same priority. Less is a strict weak
// ordering, because it compares field by field. No field may change while the entity is in the queue.
func Less(a, b Entity) bool {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.Time.Compare(b.Time),
		cmp.Compare(a.Group, b.Group),
		compareBool(a.InGroup, b.InGroup), // A pod and a group may have the same name.
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
