package filters

import (
	fwk "k8s.io/kube-scheduler/framework"
)

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
