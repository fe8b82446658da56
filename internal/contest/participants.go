package contest

import v1 "k8s.io/api/core/v1"

// learn finds out from a pod whether its scheduler takes part in the protocol: by who has
// allocated a claim that was reserved for this pod alone in the same write. Only schedulers may write
// that, and only the pod's own does. It reports whether that changes who contends.
func (c *Contest) learn(pod *v1.Pod) (changed bool) {
	for _, name := range claimNames(pod) {
		claim := c.Cluster.Claim(pod.Namespace, name)
		if claim == nil {
			continue
		}
		if by, ours, known := c.Order.AllocatedFor(claim.UID); known && by == pod.UID {
			changed = c.Contenders.Learn(pod.Spec.SchedulerName, ours) || changed
		}
	}
	return changed
}

// claimNames are the claims of a pod that are known by name.
func claimNames(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.ResourceClaimName != nil {
			names = append(names, *status.ResourceClaimName)
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	return names
}
