// Package extended handles pods whose containers ask for devices by the name of an extended resource (KEP-5004): the device
// classes that stand for the name, the nodes where devices must back it, and the claim that the scheduler creates for the pod.
//
// It does not know which devices exist or who holds them. It does not decide which node a pod gets, or when its claim is
// written and released.
//
// # Stale claims
//
// Failed attempts leave claims behind that no other attempt goes on with: allocations of claims that only pods of a gang use
// that does not fit with them, and claims for extended resources that do not match the pod. This package deletes or releases
// these.
package extended
