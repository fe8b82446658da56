// Package server assembles a guard: its view of the cluster, the election, the certificate, the registration and the
// HTTPS server. cmd/guard runs it alone; the scheduler runs it on its own inventory and ledger.
//
// Flags are those of a guard, for cmd/guard and for the scheduler, which has the same ones with a prefix.
package server
