// Package coordinator schedules gangs of pods with a kube-scheduler that knows only single pods. A gang is a PodGroup of
// scheduler-plugins (scheduling.x-k8s.io), which its pods name in a label.
//
//	begin.go     plans the whole gang at the first attempt for one of its pods; the others follow the plan
//	hold.go      keeps planned devices and nodes from other pods until the gang's pods are bound
//	carry.go     retries pods that have an assignment until they are reserved
//	steps.go     the next steps of each pod: wait for the others, or fail with them
//	underway.go  where pods are between Permit and the moment when the informer shows the result
//	members.go   which pods a gang has, and where they are
//	memory.go    the state of gangs that wait
//	wake.go      which pods are tried again, and when
//	hints.go     events that may help a gang according to the other plugins
//	turns.go     limits the time spent on planning in vain
//
// The callers provide the PlanFunc.
//
// # Progress
//
// A progress follows how the plan of a gang is carried out: each pod has an assignment, which is a node with devices, and takes it in an
// attempt of its own. All of them are reserved before anything is written for any of them, and all their claims are written
// before any of them is bound. If one fails before that, all give up their assignments.
//
//	planned → reserved → committed → bound
//
// A progress is a state machine: its callers act, for example end what is in flight.
package coordinator
