// Package order has the order of pods and groups in the scheduling queue, and the times of groups that it
// needs.
package order

import (
	"cmp"
	"sync"
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
// a group have the time of the group, and therefore stand together. It is a strict weak ordering, because
// it compares field by field.
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

// GroupTime returns the time by which a group is sorted: when it was created or, if an attempt has failed
// since, the time of that, so that a group which does not fit lets others pass. It is asked with each
// comparison, under the lock of the queue: it must be quick and must not wait. found is false for groups
// that are not known.
type GroupTime func(namespace, name string) (since time.Time, found bool)

// groupTimes are by informer factory: a scheduler has one.
var groupTimes sync.Map

// Register tells whom to ask for the times of groups (PodGroups of scheduling.x-k8s.io, by label) in the
// scheduler with an informer factory. The function that it returns undoes that.
func Register(factory any, times GroupTime) (forget func()) {
	registered := &times
	groupTimes.Store(factory, registered)
	return func() { groupTimes.CompareAndDelete(factory, registered) }
}

// TimesOf returns what was registered for an informer factory, nil if nothing was.
func TimesOf(factory any) GroupTime {
	if registered, found := groupTimes.Load(factory); found {
		return *registered.(*GroupTime)
	}
	return nil
}
