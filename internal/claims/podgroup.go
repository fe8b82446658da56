package claims

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// PodGroupReference returns the reference by which claims are reserved for a PodGroup.
func PodGroupReference(podGroup *kube.PodGroup) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{APIGroup: kube.PodGroupVersion.Group, Resource: "podgroups", Name: podGroup.Name, UID: podGroup.UID}
}

// PodGroupReferences returns the consumer references of the pod's claims that belong to its PodGroup
// (podgroup.spec.resourceClaims, KEP-5729) and so are reserved for the group, by claim name. A claim that the pod
// refers to twice belongs to the group if one of the references does.
func PodGroupReferences(pod *v1.Pod, podGroup *kube.PodGroup) (map[string]resourceapi.ResourceClaimConsumerReference, error) {
	references := make(map[string]resourceapi.ResourceClaimConsumerReference)
	for i := range pod.Spec.ResourceClaims {
		reference, err := resourceclaim.BindTo(pod, podGroup, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if !dra.IsPodGroup(reference) {
			continue
		}
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name != nil {
			references[*name] = reference
		}
	}
	return references, nil
}

// ReservedForPodGroup returns the claims that belong to the group and are allocated and reserved for it. latest returns the latest
// known state of a claim, nil if it does not exist.
func ReservedForPodGroup(podGroup *kube.PodGroup, latest func(namespace, name string) *resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for i := range podGroup.Spec.ResourceClaims {
		name, mustCheckOwner, err := resourceclaim.NameFromPodGroup(podGroup, &podGroup.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue // Not created yet.
		}
		claim := latest(podGroup.Namespace, *name)
		if claim == nil || claim.Status.Allocation == nil ||
			mustCheckOwner && resourceclaim.IsForPodGroup(podGroup, claim) != nil {
			continue
		}
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.UID == podGroup.UID {
				claims = append(claims, claim)
			}
		}
	}
	return claims
}
