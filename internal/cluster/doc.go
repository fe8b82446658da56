// Package cluster keeps the scheduler's view of devices up to date with the cluster:
// inventory, ledger, the order in which claims were allocated, and the data derived from these. All
// profiles of a scheduler share one State, because each must see the allocations that the others
// have in flight.
package cluster
