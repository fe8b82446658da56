// Package podgroup handles pods that are scheduled together (KEP-4671) and claims that are reserved for their PodGroup
// (KEP-5729): what an attempt to schedule a group has planned so far, and which attempts of this process use a claim of
// the group.
//
// The package does not depend on the scheduler's extension points or on a pod's other needs, and writes nothing.
package podgroup
