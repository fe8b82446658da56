// Package roster tracks how the plans of gangs are carried out. Each pod of a gang has a seat, that is a node and
// devices, and takes it in an attempt of its own. All pods are reserved before anything is written for any of them, and
// all their claims are written before any pod is bound. If one pod fails before that, all seats of the gang end.
//
//	planned → reserved → committed → bound
//
// Package roster is a state machine: its callers act, for example end what is in flight.
package roster
