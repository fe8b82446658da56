package foreign

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// learn determines from a pod whether its scheduler takes part in the protocol, by the author of an
// allocation that was written together with a reservation for this pod alone. Only schedulers may write
// that, and only the pod's own scheduler does. It reports whether this changes the competitors.
func (c *Watch) learn(pod *v1.Pod) (changed bool) {
	for name := range resourceclaim.PodClaims(pod) {
		claim := c.Cluster.Claim(pod.Namespace, name)
		if claim == nil {
			continue
		}
		if by, ours, known := c.Order.AllocatedFor(claim.UID); known && by == pod.UID {
			changed = c.Competitors.Learn(pod.Spec.SchedulerName, ours) || changed
		}
	}
	return changed
}
