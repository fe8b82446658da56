// Package server puts a guard together: what is known of the cluster, the election, the
// certificate, the registration and the HTTPS server. cmd/guard runs it alone; the scheduler runs it
// on the inventory and the ledger that it has.
package server
