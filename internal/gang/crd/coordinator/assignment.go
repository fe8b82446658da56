package coordinator

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

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
