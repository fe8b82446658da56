package quartermaster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
)

// consumer is for whom the claim gets reserved: the pod, or the PodGroup that the claim
// belongs to.
func (c *podClaim) consumer(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
	if c.group != nil {
		return *c.group
	}
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// setGroups finds out which of the pod's claims belong to its PodGroup
// (podgroup.spec.resourceClaims, KEP-5729) and thus get reserved for that. A claim that
// the pod refers to twice belongs to the group if one of the references does. It fails if
// that cannot be known, or if the claim cannot be used for the moment.
func (pl *Quartermaster) setGroups(pod *v1.Pod, claims []*podClaim) error {
	name := podgroup.NameOf(pod)
	if !pl.features.EnableDRAWorkloadResourceClaims || name == "" {
		return nil
	}
	podGroup, err := pl.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, name)
	if err != nil {
		return fmt.Errorf("find out which claims of the pod belong to PodGroup %s/%s: %w; waiting for the PodGroup to be created", pod.Namespace, name, err)
	}
	for i := range pod.Spec.ResourceClaims {
		reference, err := resourceclaim.BindTo(pod, podGroup, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return err
		}
		if !podgroup.Is(reference) {
			continue
		}
		claimName, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return err
		}
		for _, podClaim := range claims {
			if claimName == nil || podClaim.claim.Name != *claimName {
				continue
			}
			if pl.groups.IsReleasing(podClaim.claim.UID) {
				return fmt.Errorf("claim %s of PodGroup %s: %w", klog.KObj(podClaim.claim), name, errUndoing)
			}
			podClaim.group = &reference
		}
	}
	return nil
}
