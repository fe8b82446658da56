// Package conductor has gangs of pods scheduled by a kube-scheduler that knows single pods only: those of PodGroups of
// scheduler-plugins (scheduling.x-k8s.io), which pods name by a label.
//
//	begin.go     the first pod of a gang that is tried has all of them planned; the others follow the plan
//	hold.go      what is planned is in use in the eyes of others, until the pods are bound
//	carry.go     that pods take their seats is looked after, until they are reserved
//	steps.go     what each pod does after that: wait for the others, fail with them
//	underway.go  where pods are between that and the moment when the informer shows it
//	members.go   which pods a gang has, and where they are
//	memory.go    what is known of gangs that wait
//	wake.go      who is tried again, and when
//	turns.go     how much time planning in vain may take
//	hints.go     what may help a gang in the eyes of the profile's other plugins
//
// How a gang is planned is up to its callers.
package conductor
