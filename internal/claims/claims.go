package claims

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Claims finds the claims of pods. It is safe for concurrent use once IndexPods has been called.
type Claims struct {
	// Stored is the informer's store of claims, Tracked the scheduler's claim manager.
	Stored  cache.Indexer
	Tracked fwk.ResourceClaimTracker
	// Pods is the informer's store of pods.
	Pods cache.Indexer
	// OfGroups is set if claims can be made for PodGroups (gate DRAWorkloadResourceClaims).
	OfGroups bool
	// Server is the API server that has the claims.
	Server Server

	// index finds pods by "namespace/name" of a claim.
	index string
}

// Server is the API server, as far as its version decides about claims.
type Server interface {
	// NoClaims returns why it cannot have any claims, nil if it may have some.
	NoClaims() error
	// ConsumerLimit returns the maximum number of consumers of a claim.
	ConsumerLimit(*resourceapi.ResourceClaim) int
	// ClaimVersion returns the apiVersion of claims.
	ClaimVersion() string
	// StoresExtendedResources reports whether it may store the status fields about extended resources.
	StoresExtendedResources() bool
}

// Of returns the claims of a pod, each once. It fails if a claim is missing, is being deleted or
// belongs to another pod; the error says which one and what has to happen.
//
// A claim that is not needed (its name in the pod's status is null) is left out.
func (c *Claims) Of(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	claims := make([]*resourceapi.ResourceClaim, 0, len(pod.Spec.ResourceClaims))
	seen := sets.New[string]()
	for i := range pod.Spec.ResourceClaims {
		claim, err := c.usable(pod, &pod.Spec.ResourceClaims[i], c.Claim)
		if err != nil {
			return nil, err
		}
		if claim != nil && !seen.Has(claim.Name) {
			seen.Insert(claim.Name)
			claims = append(claims, claim)
		}
	}
	return claims, nil
}

// Check fails like Of, but builds no list: the scheduling queue calls it for each pod of a waiting
// group after each update of one of them.
func (c *Claims) Check(pod *v1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		if _, err := c.usable(pod, &pod.Spec.ResourceClaims[i], c.known); err != nil {
			return err
		}
	}
	return nil
}

// usable returns the claim that a pod refers to, nil if none is needed. It checks the owner for
// each reference, because a pod can refer to a claim by name and by template.
func (c *Claims) usable(pod *v1.Pod, reference *v1.PodResourceClaim,
	get func(namespace, name string) *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if notMadeYet(pod, reference) {
		return nil, NotMade{c.missing(pod, reference, nil)}
	}
	name, mustCheckOwner, err := resourceclaim.Name(pod, reference)
	if err != nil {
		return nil, c.missing(pod, reference, err)
	}
	if name == nil {
		return nil, nil
	}
	claim := get(pod.Namespace, *name)
	if claim == nil {
		return nil, c.unseen(pod, reference, *name)
	}
	if claim.DeletionTimestamp != nil {
		return nil, fmt.Errorf("claim %s/%s is being deleted; waiting for a new one", pod.Namespace, *name)
	}
	if mustCheckOwner {
		if err := resourceclaim.IsForPod(pod, claim, c.OfGroups); err != nil {
			return nil, fmt.Errorf("claim %s/%s cannot be used: %w", pod.Namespace, *name, err)
		}
	}
	return claim, nil
}

// notMadeYet reports whether the claim of a template is missing in the pod's status.
// resourceclaim.Name reports that as well, with an error text that costs more than all the rest.
func notMadeYet(pod *v1.Pod, reference *v1.PodResourceClaim) bool {
	if reference.ResourceClaimName != nil || reference.ResourceClaimTemplateName == nil {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ResourceClaimStatuses, func(made v1.PodResourceClaimStatus) bool { return made.Name == reference.Name })
}

// Claim returns the latest known state of a claim, nil if it does not exist. The scheduler's
// manager knows the scheduler's own writes before the informer does, but may receive other writes
// late, so that a pod woken by such a write would miss it.
func (c *Claims) Claim(namespace, name string) *resourceapi.ResourceClaim {
	stored := informer.Object[resourceapi.ResourceClaim](c.Stored, namespace+"/"+name)
	tracked, err := c.Tracked.Get(namespace, name)
	if err != nil || tracked == nil {
		return stored
	}
	if stored == nil || stored == tracked {
		return tracked
	}
	if informer.Newer(stored.ResourceVersion, tracked.ResourceVersion) {
		return stored
	}
	return tracked
}

// known returns some state of a claim, nil if it does not exist. It suits fields that the
// scheduler's writes do not change, and usually needs only one lookup.
func (c *Claims) known(namespace, name string) *resourceapi.ResourceClaim {
	if stored := informer.Object[resourceapi.ResourceClaim](c.Stored, namespace+"/"+name); stored != nil {
		return stored
	}
	return c.Claim(namespace, name)
}

// Listed reports whether the informer has delivered the claim.
func (c *Claims) Listed(namespace, name string) bool {
	return informer.Object[resourceapi.ResourceClaim](c.Stored, namespace+"/"+name) != nil
}

// Reserved reports whether a claim is reserved for a pod, or for its PodGroup.
func (c *Claims) Reserved(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return resourceclaim.IsReservedForPod(pod, claim, c.OfGroups)
}

// Unallocated returns the claims without an allocation.
func Unallocated(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	var result []*resourceapi.ResourceClaim
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			result = append(result, claim)
		}
	}
	return result
}

// OfBound returns the claims of a pod that is on a node, including the one for extended resources.
func (c *Claims) OfBound(pod *v1.Pod) []*resourceapi.ResourceClaim {
	extended := pod.Status.ExtendedResourceClaimStatus
	if pod.Spec.NodeName == "" || len(pod.Spec.ResourceClaims) == 0 && extended == nil {
		return nil
	}
	claims, err := c.Of(pod)
	if err != nil {
		return nil
	}
	if extended != nil {
		if made := c.Claim(pod.Namespace, extended.ResourceClaimName); made != nil {
			claims = append(claims, made)
		}
	}
	return claims
}

// MadeFor returns the UID of the pod for whose extended resources a scheduler made the claim (KEP-5004), "" for other
// claims.
func MadeFor(claim *resourceapi.ResourceClaim) types.UID {
	if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return ""
	}
	for i := range claim.OwnerReferences {
		if owner := &claim.OwnerReferences[i]; owner.Kind == "Pod" && ptr.Deref(owner.Controller, false) {
			return owner.UID
		}
	}
	return ""
}

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
