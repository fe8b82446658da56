package coordinator

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// assignmentKey is the key of the assignment that an attempt began with.
const assignmentKey fwk.StateKey = "QuartermasterAssignment"

type assignmentState struct{ *Assignment }

// Clone implements fwk.StateData. Assignments are immutable.
func (s assignmentState) Clone() fwk.StateData { return s }

// AssignmentIn returns the assignment that an attempt to schedule a pod began with, nil if it has none.
func AssignmentIn(cs fwk.CycleState) *Assignment {
	data, err := cs.Read(assignmentKey)
	if err != nil {
		return nil
	}
	if state, ok := data.(assignmentState); ok {
		return state.Assignment
	}
	return nil
}

// apartKey marks the states of attempts that only ask the other plugins about pods of a gang.
const apartKey fwk.StateKey = "QuartermasterApart"

type apart struct{}

// Clone implements fwk.StateData.
func (apart) Clone() fwk.StateData { return apart{} }

// SetApart marks the state of an attempt that only asks the other plugins about a pod.
func SetApart(cs fwk.CycleState) { cs.Write(apartKey, apart{}) }

// IsApart reports whether SetApart has marked a state.
func IsApart(cs fwk.CycleState) bool {
	_, err := cs.Read(apartKey)
	return err == nil
}

// plannedKey marks the states of attempts in which a gang was planned.
const plannedKey fwk.StateKey = "QuartermasterPlanned"

// HasPlanned reports whether an attempt has looked for room for the whole gang. Other attempts only repeat the result of
// one that did so a moment ago.
func HasPlanned(cs fwk.CycleState) bool {
	_, err := cs.Read(plannedKey)
	return err == nil
}
