package whatif

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// OpenClaims returns the claims that would have to be allocated for a pod: existing claims without
// an allocation, and claims that would be made from templates. It leaves out claims and templates
// that do not exist.
func (s *Snapshot) OpenClaims(pod *v1.Pod) []*resourceapi.ResourceClaim {
	pod = defaultedPod(pod)
	var open []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		claim, err := s.claimFor(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && claim != nil && claim.Status.Allocation == nil {
			open = append(open, claim)
		}
	}
	return open
}
