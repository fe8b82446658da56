// Package negotiation schedules pods whose claims are allocated by the drivers' controllers in the control plane
// (KEP-3063): v1alpha2 and v1alpha3 of resource.k8s.io, up to Kubernetes 1.31.
//
// The scheduler does not know the devices. It asks: in the pod's PodSchedulingContext it lists nodes that pass all
// other filters (potentialNodes), and each controller answers on which of them it cannot allocate its claims
// (unsuitableNodes). After all answers, the scheduler selects a node, and each controller allocates for it. When all
// claims are allocated, the pod is tried once more, the scheduler reserves its claims and binds it. If a claim was
// allocated where the pod cannot run, the scheduler asks the controller to free it (status.deallocationRequested).
//
// An Attempt holds the decisions of one scheduling attempt and has no side effects. Negotiator and Writer talk to the
// server: Negotiator in the background, because the pod must wait anyway, Writer at once.
//
// Differences from the in-tree plugins of 1.30 and 1.31:
//
//   - A selected node stays selected while the pod fits there. Otherwise each of the attempts in between, which may be
//     many, would select another one.
//   - A selected node on which the pod no longer fits is withdrawn.
//   - Nodes that controllers were asked about stay among the potential ones while there is room, and have precedence
//     while they are feasible. A random choice each time would forget refusals; among a thousand nodes with few
//     suitable ones, that takes hundreds of writes.
//   - A claim that was allocated for the node of another pod is left to that pod.
//   - Contexts do not block the deletion of their pods (blockOwnerDeletion).
//   - If a new pod has the name of a deleted one, the old pod's context is deleted without waiting for the garbage
//     collector.
//   - Writes to claims carry the resourceVersion of the state that they are based on.
package negotiation
