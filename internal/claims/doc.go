// Package claims knows which claims a pod uses, which pods use a claim, and why a pod cannot be scheduled with its claims as
// they are. It looks everything up in memory, except whether a pod exists or is bound, which only the server knows.
//
// # Node allocatable resources
//
// NodeAllocatable refuses devices that stand for, or need, resources of the node (KEP-5517, gate DRANodeAllocatableResources;
// docs/devices.md#devices-that-take-resources-of-their-node). The scheduler's cache counts what they take as a part of what the pod takes, and it asks only the
// in-tree plugin for that, by the type of its state. With the gate off these fields mean nothing, as for the in-tree plugin.
package claims
