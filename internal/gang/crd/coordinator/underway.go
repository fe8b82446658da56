package coordinator

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// underwayKey is the key under which an attempt that got as far as Permit is in its own state.
const underwayKey fwk.StateKey = "QuartermasterUnderway"

// underway is an attempt to schedule a pod of a gang that got as far as Permit and has not failed. Until the informer shows
// that the pod is bound, only the attempt knows the pod's node.
type underway struct {
	// pod has its node set.
	pod *v1.Pod
	// assignment is nil if the pod does not depend on others of its gang.
	assignment *planning.Assignment
	// passed is set once the pod no longer waits in Permit, and bound once the API server has accepted the binding.
	passed, bound bool
}

// Clone implements fwk.StateData.
func (u *underway) Clone() fwk.StateData { return u }

// getUnderway records that an attempt got as far as Permit.
func (c *Coordinator) getUnderway(cs fwk.CycleState, pod *v1.Pod, assignment *planning.Assignment) {
	if crd.KeyOf(pod) == "" {
		return
	}
	u := &underway{pod: pod, assignment: assignment}
	cs.Write(underwayKey, u)
	c.mutex.Lock()
	c.underway[pod.UID] = u
	c.mutex.Unlock()
	c.forgetSeen(pod)
}

func underwayIn(cs fwk.CycleState) *underway {
	u, _ := kube.Stored[*underway](cs, underwayKey)
	return u
}

// arrived records that the pod of an attempt is bound.
func (c *Coordinator) arrived(cs fwk.CycleState) {
	u := underwayIn(cs)
	if u == nil {
		return
	}
	c.mutex.Lock()
	u.bound = true
	c.mutex.Unlock()
	c.forgetSeen(u.pod)
}

// pass records that an attempt is beyond Permit.
func (c *Coordinator) pass(cs fwk.CycleState) {
	if u := underwayIn(cs); u != nil {
		c.mutex.Lock()
		u.passed = true
		c.mutex.Unlock()
	}
}

// undone records that an attempt has failed. It returns the pod if others of the gang may have counted on it.
func (c *Coordinator) undone(cs fwk.CycleState) *v1.Pod {
	u := underwayIn(cs)
	if u == nil {
		return nil
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.underway[u.pod.UID] != u {
		return nil
	}
	delete(c.underway, u.pod.UID)
	return u.pod
}

// forgetSeen forgets an attempt whose result the informer shows already: the event may have come before the attempt was recorded.
func (c *Coordinator) forgetSeen(pod *v1.Pod) {
	known := informer.Object[v1.Pod](c.pods, pod.Namespace+"/"+pod.Name)
	if known == nil || known.UID != pod.UID || known.Spec.NodeName != "" {
		c.land(pod.UID)
	}
}

// land forgets the attempt of a pod that is bound, or gone.
func (c *Coordinator) land(pod types.UID) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.underway, pod)
}

// placeOf returns a pod without a node as it will be if the attempt to schedule it succeeds, nil if there is no attempt.
// undoing is set if the attempt is being undone, because the pod has lost its assignment meanwhile.
func (c *Coordinator) placeOf(pod *v1.Pod) (placed *v1.Pod, undoing bool) {
	c.mutex.Lock()
	u := c.underway[pod.UID]
	bound := u != nil && u.bound
	c.mutex.Unlock()
	switch {
	case u == nil:
		return nil, false
	case u.assignment == nil, bound:
		return u.pod, false
	}
	return u.pod, c.progress.Of(pod.UID) != u.assignment
}

// assignmentKey is the key of the assignment that an attempt began with.
const assignmentKey fwk.StateKey = "QuartermasterAssignment"

type assignmentState struct{ *planning.Assignment }

// Clone implements fwk.StateData. Assignments are immutable.
func (s assignmentState) Clone() fwk.StateData { return s }

// AssignmentIn returns the assignment that an attempt to schedule a pod began with, nil if it has none.
func AssignmentIn(cs fwk.CycleState) *planning.Assignment {
	state, _ := kube.Stored[assignmentState](cs, assignmentKey)
	return state.Assignment
}

// plannedKey marks the states of attempts in which a gang was planned.
const plannedKey fwk.StateKey = "QuartermasterPlanned"

type hasPlanned struct{}

// Clone implements fwk.StateData.
func (hasPlanned) Clone() fwk.StateData { return hasPlanned{} }

// HasPlanned reports whether an attempt has looked for room for the whole gang. Other attempts only repeat the result of
// one that did so a moment ago.
func HasPlanned(cs fwk.CycleState) bool {
	_, err := cs.Read(plannedKey)
	return err == nil
}
