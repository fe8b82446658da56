// Package nodeallocatable accounts for devices that stand for, or need, resources of their node, such as CPUs (KEP-5517, gate
// DRANodeAllocatableResources).
//
// Such resources must count for all pods on the node. kube-scheduler takes them, when it assumes a pod, from the in-tree plugin's
// entry in the pod's CycleState, by the type of that entry. So an instance of the in-tree plugin judges the node, in a world in
// which the pod's claims are already allocated as planned for it. The rules are upstream's, the entry has the right type, and
// NodeInfo is exact for all plugins.
//
// It is apart from package kube because it links the in-tree plugin, which kubectl devices does without.
package nodeallocatable
