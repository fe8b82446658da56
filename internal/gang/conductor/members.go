package conductor

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/coscheduling"
)

// gangIndex is the index of pods by gang.
const gangIndex = "quartermasterPodsByGang"

// Members are the pods of a gang.
type Members struct {
	// Assigned have a node, have not ended and are not about to.
	Assigned []*v1.Pod
	// Waiting can be scheduled together with a pod, oldest first; Held can not, for the time being. HeldBy says why the
	// first of these cannot.
	Waiting, Held []*v1.Pod
	HeldBy        string
	// without are those without a node, until they are judged.
	without []*v1.Pod
}

// all is how many pods there are.
func (m *Members) all() int {
	return len(m.Assigned) + len(m.Waiting) + len(m.Held) + len(m.without)
}

// MembersOf returns the pods of a pod's gang.
func (c *Conductor) MembersOf(pod *v1.Pod) *Members {
	m := c.count(pod)
	c.judge(m, pod)
	return m
}

// count tells the pods of a pod's gang that have a node from those that have none.
func (c *Conductor) count(pod *v1.Pod) *Members {
	m := &Members{}
	for _, other := range c.podsOf(coscheduling.KeyOf(pod)) {
		placed, undoing := c.placeOf(other)
		switch {
		case isOver(other), isLeaving(other):
		case other.Spec.NodeName != "":
			m.Assigned = append(m.Assigned, other)
		case undoing:
			m.add(other, fmt.Sprintf("an attempt to schedule pod %s that came to nothing is being undone; waiting for that", other.Name))
		case placed != nil:
			m.Assigned = append(m.Assigned, placed)
		default:
			m.without = append(m.without, other)
		}
	}
	return m
}

// judge finds out which of the pods without a node can be scheduled together with one of them. That takes longer.
func (c *Conductor) judge(m *Members, pod *v1.Pod) {
	isIt := func(other *v1.Pod) bool { return other.UID == pod.UID }
	if pod.Spec.NodeName == "" && !slices.ContainsFunc(slices.Concat(m.Assigned, m.Held, m.without), isIt) {
		m.Waiting = append(m.Waiting, pod) // The informer has it in another gang, or not any more.
	}
	for _, other := range m.without {
		m.add(other, c.heldBy(other, pod))
	}
	m.without = nil
	slices.SortFunc(m.Waiting, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// add adds a pod without a node.
func (m *Members) add(pod *v1.Pod, heldBy string) {
	if heldBy == "" {
		m.Waiting = append(m.Waiting, pod)
		return
	}
	m.Held = append(m.Held, pod)
	if m.HeldBy == "" || pod.Name < m.Held[0].Name {
		m.HeldBy = heldBy
		m.Held[0], m.Held[len(m.Held)-1] = pod, m.Held[0]
	}
}

// heldBy says why a pod without a node cannot be scheduled together with another one, "" if it can.
func (c *Conductor) heldBy(pod, with *v1.Pod) string {
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("pod %s has the scheduling gate %s; waiting for that to be removed", pod.Name, pod.Spec.SchedulingGates[0].Name)
	case pod.Spec.SchedulerName != with.Spec.SchedulerName:
		return fmt.Sprintf("pod %s has schedulerName %s; give all pods of a group the same", pod.Name, pod.Spec.SchedulerName)
	}
	if err := c.Ready(pod); err != nil {
		return fmt.Sprintf("pod %s: %v", pod.Name, err)
	}
	return ""
}

// podsOf returns the pods of a gang as the informer has them.
func (c *Conductor) podsOf(gang string) (pods []*v1.Pod) {
	found, err := c.pods.ByIndex(gangIndex, gang)
	if err != nil {
		return nil
	}
	for _, obj := range found {
		if pod, ok := obj.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}
