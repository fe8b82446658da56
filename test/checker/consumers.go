package checker

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// checkConsumers: status.reservedFor obeys the limits of the API.
func checkConsumers(r *report, claim *resourceapi.ResourceClaim) {
	object := claimObject(claim)
	consumers := claim.Status.ReservedFor
	if len(consumers) > resourceapi.ResourceClaimReservedForMaxSize {
		r.violation(ConsumersInvalid, object, "it is reserved for %d consumers, but the API permits %d", len(consumers), resourceapi.ResourceClaimReservedForMaxSize)
	}
	if len(consumers) > 0 && claim.Status.Allocation == nil {
		r.violation(ConsumersInvalid, object, "it is reserved for %s and has %d consumers, but it is not allocated", consumers[0].Name, len(consumers))
	}
	seen := map[types.UID]bool{}
	for _, consumer := range consumers {
		if seen[consumer.UID] {
			r.violation(ConsumersInvalid, object, "%s/%s (UID %s) is listed more than once in status.reservedFor", consumer.Resource, consumer.Name, consumer.UID)
		}
		seen[consumer.UID] = true
	}
}

// checkConsumersExist: every pod for which the claim is reserved exists and is not done
// yet. Other kinds of consumers are not known here.
func checkConsumersExist(r *report, s *snapshot, claim *resourceapi.ResourceClaim) {
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup != "" || consumer.Resource != "pods" {
			continue
		}
		pod := s.podNamed[types.NamespacedName{Namespace: claim.Namespace, Name: consumer.Name}]
		switch {
		case pod == nil:
			r.violation(ReservedForGonePod, claimObject(claim), "it is reserved for pod %s (UID %s), which does not exist", consumer.Name, consumer.UID)
		case pod.UID != consumer.UID:
			r.violation(ReservedForGonePod, claimObject(claim), "it is reserved for pod %s with UID %s, but the pod of that name has UID %s", consumer.Name, consumer.UID, pod.UID)
		case done(pod):
			r.violation(ReservedForGonePod, claimObject(claim), "it is reserved for pod %s (UID %s), which will not run anymore (phase %s)", consumer.Name, consumer.UID, pod.Status.Phase)
		}
	}
}

// checkUsed: if a claim is allocated without a reservation, some pod wants it.
func checkUsed(r *report, s *snapshot, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil || len(claim.Status.ReservedFor) > 0 {
		return
	}
	for _, pod := range s.pods {
		if done(pod) || pod.Namespace != claim.Namespace {
			continue
		}
		for _, ref := range claimRefs(pod) {
			if ref.claimName == claim.Name && (!ref.generated || belongsTo(claim, pod)) {
				return
			}
		}
	}
	object := claimObject(claim)
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && owner.Kind == "Pod" {
		r.violation(AllocatedForNobody, object, "it was generated for pod %s (UID %s), which does not need it anymore, and it is still allocated", owner.Name, owner.UID)
		return
	}
	r.warning(AllocatedForNobody, object, "it is allocated, but it is not reserved for anybody, and no pod refers to it")
}

// done reports whether the pod will never use its claims (again): it has finished, or it was
// deleted before it was bound.
func done(pod *corev1.Pod) bool {
	return finished(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// finished reports whether all containers of the pod have terminated for good.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
