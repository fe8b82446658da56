// Package roster follows how the plans of gangs are carried out: each pod of a gang has a seat, a node and devices, and
// takes it in an attempt of its own. All of them are reserved before anything is written for any of them, and all their
// claims are written before any of them is bound; if one fails before that, the seats of all are given up.
//
//	planned → reserved → committed → bound
//
// It is a state machine: what is to be done, such as ending what is in flight, is up to its callers.
package roster
