package contest

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// learn finds out from a pod whether its scheduler takes part in the protocol: by who has
// allocated a claim that is reserved for this pod alone. That it does is believed only of a
// claim that was made for the pod and was seen to be allocated: before that, another scheduler
// may have had its name. It reports whether that changes who contends.
func (c *Contest) learn(pod *v1.Pod) (changed bool) {
	for _, name := range claimNames(pod) {
		claim := c.Cluster.Claim(pod.Namespace, name)
		if claim == nil || len(claim.Status.ReservedFor) != 1 || claim.Status.ReservedFor[0].UID != pod.UID {
			continue
		}
		switch ours, known := c.Order.AllocatedBy(claim.UID); {
		case known && !ours:
			changed = c.Contenders.Learn(pod.Spec.SchedulerName, false) || changed
		case c.Order.AllocatedByOursSince(claim.UID) && metav1.IsControlledBy(claim, pod):
			changed = c.Contenders.Learn(pod.Spec.SchedulerName, true) || changed
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
