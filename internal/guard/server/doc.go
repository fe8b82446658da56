// Package server assembles a guard: its view of the cluster, the election, the certificate, the registration and the
// HTTPS server. cmd/guard runs it alone; the scheduler runs it on its own inventory and ledger.
package server
