// Package clusterstate keeps what is known of devices and of who holds them in step with
// the cluster: inventory, ledger, the order in which claims were allocated, and what follows
// from these. All profiles of a scheduler share one State, because each has to see what the
// others have in flight.
package clusterstate
