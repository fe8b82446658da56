// Package claims knows which claims a pod uses, which pods use a claim, and why a pod cannot be scheduled with its claims as
// they are. It looks everything up in memory, except whether a pod exists or is bound, which only the server knows.
//
// # Node allocatable resources
//
// Check refuses devices that stand for, or need, resources of the node (KEP-5517, gate DRANodeAllocatableResources) where package
// nodeallocatable does not account for them: on older servers. With the gate off the fields mean nothing, as
// for the in-tree plugin.
package claims
