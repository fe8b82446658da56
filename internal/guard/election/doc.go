// Package election has exactly one guard of a cluster decide, and tells everybody by the Lease
// whether it does.
package election
