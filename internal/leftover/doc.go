// Package leftover ends what attempts to schedule pods have left behind and nobody goes on with: allocations of claims that
// only pods of a gang use which does not fit with them, and claims that were made for a pod's extended resources (KEP-5004)
// and are not what the pod needs.
package leftover
