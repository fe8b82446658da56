// Package devices finds out where the pods of a gang fit: it is the search.Judge for pods with ResourceClaims.
//
//	Trial         the pods of a gang added to nodes so far; it changes nothing outside
//	unit.go       devices for all claims on a node at once, so that the choice for one pod does not exclude the next
//	beside.go     the usage including all that is planned for the gang
//	claims.go     claims that pods on several nodes share
//	ties.go       devices that several nodes reach: planned ones may be in the way of others
//	together.go   whether several nodes taken together have too few devices
//	account.go    what devices take of their node, such as CPUs (KEP-5517)
//	plan.go       the best devices, once the nodes of all pods are known
//
// Others decides about everything that pods need besides devices.
package devices
