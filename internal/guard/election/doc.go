// Package election makes exactly one guard of a cluster decide, and announces it on the Lease.
package election
