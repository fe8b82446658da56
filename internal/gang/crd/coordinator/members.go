package coordinator

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// gangIndex is the index of pods by gang.
const gangIndex = "quartermasterPodsByGang"

// Members are the pods of a gang.
type Members struct {
	// Assigned are the pods that have a node, or an attempt that got as far as Permit, and that neither have ended nor are
	// being deleted.
	Assigned []*v1.Pod
	// Waiting are the pods that can be scheduled together with the given pod, oldest first. Held are those that cannot for
	// the moment, and HeldBy is the reason of the first of them.
	Waiting, Held []*v1.Pod
	HeldBy        string
	// without are the pods without a node that are not judged yet.
	without []*v1.Pod
}

// all returns the number of pods.
func (m *Members) all() int {
	return len(m.Assigned) + len(m.Waiting) + len(m.Held) + len(m.without)
}

// MembersOf returns the pods of a pod's gang.
func (c *Coordinator) MembersOf(pod *v1.Pod) *Members {
	m := c.count(pod)
	c.judge(m, pod)
	return m
}

// Lacking returns the group of a pod, those of its pods that can be scheduled now, and how many pods it lacks to run. It fails if
// the group is not known.
func (c *Coordinator) Lacking(pod *v1.Pod) (group *Group, waiting []*v1.Pod, lacks int, err error) {
	if group, err = c.lookup(pod, crd.NameOf(pod)); err != nil {
		return nil, nil, 0, err
	}
	members := c.MembersOf(pod)
	return group, members.Waiting, group.MinMember - group.Succeeded - len(members.Assigned), nil
}

// count divides the pods of a pod's gang into those with a node and those without.
func (c *Coordinator) count(pod *v1.Pod) *Members {
	m := &Members{}
	for _, other := range c.podsOf(crd.KeyOf(pod)) {
		placed, undoing := c.placeOf(other)
		switch {
		case dra.HasEnded(other), isLeaving(other):
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

// judge determines which of the pods without a node can be scheduled together with the given pod. It takes longer than count.
func (c *Coordinator) judge(m *Members, pod *v1.Pod) {
	isIt := func(other *v1.Pod) bool { return other.UID == pod.UID }
	if pod.Spec.NodeName == "" && !slices.ContainsFunc(slices.Concat(m.Assigned, m.Held, m.without), isIt) {
		m.Waiting = append(m.Waiting, pod) // The informer shows it in another gang, or no longer shows it.
	}
	for _, other := range m.without {
		m.add(other, c.heldBy(other, pod))
	}
	m.without = nil
	slices.SortFunc(m.Waiting, podutil.Older)
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

// heldBy returns why a pod without a node cannot be scheduled together with another one, "" if it can.
func (c *Coordinator) heldBy(pod, with *v1.Pod) string {
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("pod %s has the scheduling gate %s; waiting for that to be removed", pod.Name, pod.Spec.SchedulingGates[0].Name)
	case pod.Spec.SchedulerName != with.Spec.SchedulerName:
		return fmt.Sprintf("pod %s has schedulerName %s; give all pods of a group the same", pod.Name, pod.Spec.SchedulerName)
	}
	if err := c.Claims.Check(pod); err != nil {
		return fmt.Sprintf("pod %s: %v", pod.Name, err)
	}
	return ""
}

// podsOf returns the pods of a gang that the informer shows.
func (c *Coordinator) podsOf(gang string) (pods []*v1.Pod) {
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
