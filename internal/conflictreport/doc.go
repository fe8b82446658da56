// Package conflictreport tells everybody concerned when claims hold what only one of them can have,
// or together more of something than there is, and none of them yields: with events for the claims and
// for the pods that use them, and metrics. If that is wanted, it evicts pods.
//
// It does not know how claims come to yield.
package conflictreport
