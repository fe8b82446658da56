// Package leftover removes what failed attempts to schedule pods left behind: allocations of claims that only waiting
// pods of a gang use, if the gang does not fit with them; and claims made for a pod's extended resources (KEP-5004)
// that the pod cannot use.
package leftover
