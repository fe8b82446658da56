package quartermaster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// recordable returns why a variant cannot be used with this API server: it would drop what
// tells the kubelet about the claim, and the pod would run without its devices.
func (pl *Quartermaster) recordable(v *variant) *fwk.Status {
	if v.claim == nil || pl.storesExtended() {
		return nil
	}
	return waiting("devices would have to serve the pod's extended resources on this node, which the API server is too old for " +
		"(it has no claims in resource.k8s.io/v1); use a ResourceClaim")
}

// checkRecorded looks whether the server has stored what was written into the pod's status.
// One that does not know the field, or has the feature off, drops it without an error.
func checkRecorded(answer *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error {
	stored := answer.Status.ExtendedResourceClaimStatus
	if stored != nil && stored.ResourceClaimName == status.ResourceClaimName && len(stored.RequestMappings) == len(status.RequestMappings) {
		return nil
	}
	return fmt.Errorf("the API server has accepted status.extendedResourceClaimStatus, but has stored %v; "+
		"turn the feature gate DRAExtendedResource on there, or use a ResourceClaim", stored)
}
