package claims

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// problem is an error whose text is made when it is read. The scheduling queue asks why pods wait
// far more often than it shows the reason.
type problem = kube.Lazy

// NotMade is the error for a pod whose claim has not been made from its template yet. All other
// errors concern claims that users must be told about.
type NotMade struct{ problem }

// missing returns the error for an unknown name of a claim; err is the reason, nil if the claim was
// not made yet.
func (c *Claims) missing(pod *v1.Pod, reference *v1.PodResourceClaim, err error) problem {
	return problem(func() string {
		if err := c.Server.NoClaims(); err != nil {
			return fmt.Sprintf("claim for %s in the pod cannot exist: %v", reference.Name, err)
		}
		if reference.ResourceClaimTemplateName != nil {
			return fmt.Sprintf("claim for %s in the pod has not been created yet; waiting for it to be made from template %s/%s "+
				"(if this lasts: no such template or a quota; see event FailedResourceClaimCreation of the pod)", reference.Name, pod.Namespace, *reference.ResourceClaimTemplateName)
		}
		return fmt.Sprintf("claim for %s in the pod: %v", reference.Name, err)
	})
}

// unseen returns the error for a claim that does not exist. If a claim from a template was deleted,
// kube-controller-manager must make another one, and that of 1.37.1 may not: for an hour it goes on
// believing in a claim that it created itself.
func (c *Claims) unseen(pod *v1.Pod, reference *v1.PodResourceClaim, name string) error {
	return problem(func() string {
		if err := c.Server.NoClaims(); err != nil {
			return fmt.Sprintf("claim %s/%s (%s in the pod) cannot exist: %v", pod.Namespace, name, reference.Name, err)
		}
		if reference.ResourceClaimTemplateName != nil {
			return fmt.Sprintf("claim %s/%s (%s in the pod) does not exist; waiting for another one to be made from template %s/%s "+
				"(delete the pod if this lasts)", pod.Namespace, name, reference.Name, pod.Namespace, *reference.ResourceClaimTemplateName)
		}
		return fmt.Sprintf("claim %s/%s (%s in the pod) does not exist; waiting for it to be created", pod.Namespace, name, reference.Name)
	})
}
