package quartermaster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// problem is an error whose text is made when somebody reads it. The scheduling queue asks
// why pods have to wait far more often than it tells anybody.
type problem func() string

// Error implements error.
func (p problem) Error() string { return p() }

// notMade is the problem of a pod for which a claim is to be made from a template. All others
// are those of claims that somebody has to be told of.
type notMade struct{ problem }

// missingClaim says why the name of a claim is not known; err is why, if it is another
// reason than that the claim was not made yet.
func (pl *Quartermaster) missingClaim(pod *v1.Pod, podClaim *v1.PodResourceClaim, err error) problem {
	return problem(func() string {
		if err := pl.noClaims(); err != nil {
			return fmt.Sprintf("claim for %s in the pod cannot exist: %v", podClaim.Name, err)
		}
		if podClaim.ResourceClaimTemplateName != nil {
			return fmt.Sprintf("claim for %s in the pod has not been created yet; waiting for it to be made from template %s/%s "+
				"(if this lasts, check that the template exists)", podClaim.Name, pod.Namespace, *podClaim.ResourceClaimTemplateName)
		}
		return fmt.Sprintf("claim for %s in the pod: %v", podClaim.Name, err)
	})
}

// unseenClaim says why there is no claim of a name.
func (pl *Quartermaster) unseenClaim(pod *v1.Pod, podClaim *v1.PodResourceClaim, name string) error {
	return problem(func() string {
		if err := pl.noClaims(); err != nil {
			return fmt.Sprintf("claim %s/%s (%s in the pod) cannot exist: %v", pod.Namespace, name, podClaim.Name, err)
		}
		return fmt.Sprintf("claim %s/%s (%s in the pod) does not exist; waiting for it to be created", pod.Namespace, name, podClaim.Name)
	})
}
