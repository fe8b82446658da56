// Package ledger records which claims hold which devices, shares of devices, counters and capacity.
// It combines the allocations that the API server has recorded (committed) with those that this
// scheduler has decided but not yet written (in flight). It can also answer what would be free if
// given claims were gone.
//
// Like package inventory, it publishes one immutable value per pool, and readers never lock. Values
// of several pools do not show the same instant: a claim with devices in two pools can appear in
// one pool before the other. AddInFlight decides under the writers' lock whether a plan still
// holds.
//
// The package knows nothing about nodes or about the search for devices.
package ledger
