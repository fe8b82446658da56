// Package preemption finds the pods of lower priority that have to go so that a pod gets devices, and evicts
// them.
//
// Upstream's preemption selects the victims on a node and the best node: PodDisruptionBudgets, reprieve, criteria,
// graceful termination are the same as for CPU. This package adds who holds devices: pods hold them through
// claims, alone or shared with other pods, and not only on the node where the devices are taken.
//
// # Release
//
// Release deallocates claims of pods that were evicted, for the pod that waits for their devices.
//
// When the last consumer of a claim is gone, kube-controller-manager's resourceclaim controller
// clears status.allocation, at some time. A preemptor need not wait for that: as soon as an awaited
// claim is not used any more, this package makes the same write. Either of them may be first: each
// write only applies to the state of the claim that was judged, and a claim that is deallocated or
// gone already needs no write. The controller handles all other claims, and claims that keep some
// of their consumers.
//
// A pod is gone if it
//   - has ended (status.phase is Succeeded or Failed), and its node does not say that a container runs, or
//   - is being deleted or gone, and was never bound to a node.
//
// The controller also takes a pod for gone that is not on the API server. It may have been deleted
// without waiting for its node, so that its containers still run and its devices are still prepared
// there (kubernetes #141471). Claims of such pods are left to the controller: nothing in the API
// says when the node has stopped them. It keeps claims of PodGroups until the group is gone.
//
// The informer of kube-scheduler leaves out pods that have ended, so that what it tells of these is the
// same as of those that were deleted: a pod that it does not have is looked for on the API server.
// Consumers other than pods and PodGroups are never taken for gone.
//
// A claim without consumers that is still allocated, as an attempt to schedule that failed may
// leave it behind, is released as well. The controller would not do that.
package preemption
