package checker

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimRef is one use of a claim by a pod.
type claimRef struct {
	// entry is the name in spec.resourceClaims, empty for the claim that
	// backs extended resources (KEP-5004).
	entry     string
	claimName string
	generated bool
	// pending: the claim has not been generated yet, its name is not known.
	pending bool
}

// claimRefs returns all claims that the pod needs. It leaves out entries that need no claim
// according to the pod's status.
func claimRefs(pod *corev1.Pod) []claimRef {
	generated := map[string]*string{}
	for _, status := range pod.Status.ResourceClaimStatuses {
		generated[status.Name] = status.ResourceClaimName
	}
	var refs []claimRef
	for _, entry := range pod.Spec.ResourceClaims {
		if entry.ResourceClaimName != nil {
			refs = append(refs, claimRef{entry: entry.Name, claimName: *entry.ResourceClaimName})
			continue
		}
		name, found := generated[entry.Name]
		switch {
		case !found:
			refs = append(refs, claimRef{entry: entry.Name, generated: true, pending: true})
		case name != nil:
			refs = append(refs, claimRef{entry: entry.Name, claimName: *name, generated: true})
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		refs = append(refs, claimRef{claimName: status.ResourceClaimName, generated: true})
	}
	return refs
}

// checkPod: a pod is bound only when each of its claims exists, is allocated on that node and is
// reserved for it, until the pod has finished.
func checkPod(r *report, s *snapshot, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || finished(pod) {
		return
	}
	object := podObject(pod)
	for _, ref := range claimRefs(pod) {
		if ref.pending {
			r.violation(PodClaimMissing, object, "it is bound to node %s, but the claim for %s was not generated", pod.Spec.NodeName, ref.entry)
			continue
		}
		claim := s.claimNamed[types.NamespacedName{Namespace: pod.Namespace, Name: ref.claimName}]
		if claim == nil {
			r.violation(PodClaimMissing, object, "it is bound to node %s, but its claim %s does not exist", pod.Spec.NodeName, ref.claimName)
			continue
		}
		checkOwner(r, pod, ref, claim)
		if claim.Status.Allocation == nil {
			r.violation(PodClaimNotReady, object, "it is bound to node %s, but its claim %s is not allocated", pod.Spec.NodeName, ref.claimName)
			continue
		}
		if !reservedFor(claim, pod) {
			r.violation(PodClaimNotReady, object, "it is bound to node %s, but its claim %s is not reserved for it (UID %s)", pod.Spec.NodeName, ref.claimName, pod.UID)
		}
		checkNode(r, s, pod, claim)
	}
}

// checkOwner: a generated claim was generated for this pod and this entry.
func checkOwner(r *report, pod *corev1.Pod, ref claimRef, claim *resourceapi.ResourceClaim) {
	if !ref.generated {
		return
	}
	if !belongsTo(claim, pod) {
		r.violation(PodClaimMissing, podObject(pod), "its claim %s was not generated for it, the owner is another object", claim.Name)
		return
	}
	if entry, found := claim.Annotations[resourceapi.PodResourceClaimAnnotation]; found && entry != ref.entry {
		r.violation(PodClaimMissing, podObject(pod), "its claim %s is used for %s, but it was generated for %s", claim.Name, ref.entry, entry)
	}
}

// belongsTo reports whether the claim was generated for the pod or its pod group.
func belongsTo(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	if metav1.IsControlledBy(claim, pod) {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	return owner != nil && owner.Kind == "PodGroup" && owner.Name == podGroupName(pod) &&
		strings.HasPrefix(owner.APIVersion, schedulingGroup+"/")
}

// schedulingGroup is the API group of PodGroups (KEP-5729).
const schedulingGroup = "scheduling.k8s.io"

// podGroupName returns the name of the pod's group, empty if it has none.
func podGroupName(pod *corev1.Pod) string {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return *group.PodGroupName
	}
	return ""
}

// reservedFor reports whether the claim is reserved for the pod or its pod group.
func reservedFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.UID == pod.UID {
			return true
		}
		if consumer.APIGroup == schedulingGroup && consumer.Resource == "podgroups" && consumer.Name == podGroupName(pod) {
			return true
		}
	}
	return false
}

// checkNode: the devices of the claim can be used on the node of the pod. Both the node selector in
// the allocation and the published slices have to agree. It does not check nodes that do not exist
// anymore.
func checkNode(r *report, s *snapshot, pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
	node := s.nodeNamed[pod.Spec.NodeName]
	if node == nil {
		return
	}
	if selector := claim.Status.Allocation.NodeSelector; selector != nil && !selects(selector, node) {
		r.violation(PodOnWrongNode, podObject(pod), "it is bound to node %s, but the node selector of its claim %s does not match that node", node.Name, claim.Name)
	}
	for i := range Results(claim) {
		id := deviceOf(&Results(claim)[i])
		if device, published := s.device(id); published && !device.reachableFrom(node) {
			r.violation(PodOnWrongNode, podObject(pod), "it is bound to node %s, but device %s of its claim %s cannot be used there", node.Name, id, claim.Name)
		}
	}
}
