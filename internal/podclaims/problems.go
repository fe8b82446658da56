package podclaims

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/podstatus"
)

// problem is an error whose text is made when somebody reads it. The scheduling queue asks
// why pods have to wait far more often than it tells anybody.
type problem = podstatus.Lazy

// NotMade is the error for a pod for which a claim is to be made from a template. All others
// are those of claims that somebody has to be told of.
type NotMade struct{ problem }

// missing says why the name of a claim is not known; err is why, if it is another
// reason than that the claim was not made yet.
func (c *Claims) missing(pod *v1.Pod, reference *v1.PodResourceClaim, err error) problem {
	return problem(func() string {
		if err := c.Absent(); err != nil {
			return fmt.Sprintf("claim for %s in the pod cannot exist: %v", reference.Name, err)
		}
		if reference.ResourceClaimTemplateName != nil {
			return fmt.Sprintf("claim for %s in the pod has not been created yet; waiting for it to be made from template %s/%s "+
				"(if this lasts: no such template or a quota; see event FailedResourceClaimCreation of the pod)", reference.Name, pod.Namespace, *reference.ResourceClaimTemplateName)
		}
		return fmt.Sprintf("claim for %s in the pod: %v", reference.Name, err)
	})
}

// unseen says why there is no claim of a name. One that was made from a template and then deleted
// has to be made again by kube-controller-manager, and that of 1.37.1 may not: it goes on believing
// for an hour in a claim that it created itself.
func (c *Claims) unseen(pod *v1.Pod, reference *v1.PodResourceClaim, name string) error {
	return problem(func() string {
		if err := c.Absent(); err != nil {
			return fmt.Sprintf("claim %s/%s (%s in the pod) cannot exist: %v", pod.Namespace, name, reference.Name, err)
		}
		if reference.ResourceClaimTemplateName != nil {
			return fmt.Sprintf("claim %s/%s (%s in the pod) does not exist; waiting for another one to be made from template %s/%s "+
				"(delete the pod if this lasts)", pod.Namespace, name, reference.Name, pod.Namespace, *reference.ResourceClaimTemplateName)
		}
		return fmt.Sprintf("claim %s/%s (%s in the pod) does not exist; waiting for it to be created", pod.Namespace, name, reference.Name)
	})
}
