// Package ledger knows which claim holds what: devices, shares of devices, and
// with them counters and capacity. It joins what the API server has recorded
// (committed) with what this scheduler has decided but not yet written (in
// flight), and can answer "what if these claims were gone".
//
// Like package inventory it publishes one immutable value a pool; readers never
// lock. What several pools show together is not one instant: a claim with devices
// in two pools can appear in one before the other. AddInFlight, under the writers'
// lock, is where it is decided whether a plan still holds.
//
// The package knows nothing about nodes, and nothing about finding devices.
package ledger
