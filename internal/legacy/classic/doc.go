// Package classic schedules pods whose claims are allocated by controllers of their
// drivers in the control plane (KEP-3063): v1alpha2 and v1alpha3 of the claim API, up to
// Kubernetes 1.31.
//
// The scheduler does not know which devices there are. It asks: in the
// PodSchedulingContext of the pod it lists nodes that would do otherwise
// (potentialNodes), and each controller answers on which of them it cannot allocate its
// claims (unsuitableNodes). Once everybody has answered, the scheduler selects a node,
// and each controller allocates for that. When all claims are allocated the pod is tried
// once more, its claims get reserved for it, and it is bound. If a claim was allocated
// where the pod cannot run, the controller is asked to free it
// (status.deallocationRequested).
//
// An Attempt is what happens in one attempt to schedule a pod and has no side effects.
// Contexts and Writer talk to the server: Contexts in the background, because the pod
// has to wait anyway, Writer at once.
//
// Where this differs from the in-tree plugins of 1.30 and 1.31:
//
//   - A node that is selected stays so as long as the pod fits there. Otherwise attempts
//     in between, of which there may be many, would each select another one.
//   - A selected node on which the pod does not fit any more is withdrawn.
//   - Nodes that controllers were asked about stay among the potential ones as long as
//     there is room, and have precedence as long as they are feasible. A random choice each
//     time forgets what was refused; of a thousand nodes, few of which will do, that takes
//     hundreds of writes.
//   - A claim that was allocated for the node of another pod is left to that pod.
//   - Contexts do not keep their pods from being deleted (blockOwnerDeletion).
//   - The context of a pod that is gone is removed if a new pod has the same name, instead
//     of waiting for the garbage collector.
//   - Writes to claims carry the resourceVersion of the state on which they were decided.
package classic
