package quartermaster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/objectversion"
)

// claimsOf returns the claims of a pod, each once. It fails if one is missing, is
// being deleted or belongs to another pod; the text says which and what has to
// happen.
//
// A claim that turned out not to be needed (its name in the pod's status is null)
// is left out.
func (pl *Quartermaster) claimsOf(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	claims := make([]*resourceapi.ResourceClaim, 0, len(pod.Spec.ResourceClaims))
	seen := sets.New[string]()
	for i := range pod.Spec.ResourceClaims {
		claim, err := pl.usableClaim(pod, &pod.Spec.ResourceClaims[i], pl.claim)
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

// checkClaims fails like claimsOf, but makes nothing: the scheduling queue asks for each pod
// of a waiting group after each update of one of them.
func (pl *Quartermaster) checkClaims(pod *v1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		if _, err := pl.usableClaim(pod, &pod.Spec.ResourceClaims[i], pl.knownClaim); err != nil {
			return err
		}
	}
	return nil
}

// usableClaim returns the claim that a pod refers to, nil if none is needed. Who owns it
// is checked for each reference, as a pod can have a claim by name and by template.
func (pl *Quartermaster) usableClaim(pod *v1.Pod, podClaim *v1.PodResourceClaim,
	get func(namespace, name string) *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if notMadeYet(pod, podClaim) {
		return nil, notMade{pl.missingClaim(pod, podClaim, nil)}
	}
	name, mustCheckOwner, err := resourceclaim.Name(pod, podClaim)
	if err != nil {
		return nil, pl.missingClaim(pod, podClaim, err)
	}
	if name == nil {
		return nil, nil
	}
	claim := get(pod.Namespace, *name)
	if claim == nil {
		return nil, pl.unseenClaim(pod, podClaim, *name)
	}
	if claim.DeletionTimestamp != nil {
		return nil, fmt.Errorf("claim %s/%s is being deleted; waiting for a new one", pod.Namespace, *name)
	}
	if mustCheckOwner {
		if err := resourceclaim.IsForPod(pod, claim, pl.features.EnableDRAWorkloadResourceClaims); err != nil {
			return nil, fmt.Errorf("claim %s/%s cannot be used: %w", pod.Namespace, *name, err)
		}
	}
	return claim, nil
}

// notMadeYet reports whether the claim of a template is not in the pod's status.
// resourceclaim.Name says so as well, with a text that costs more than all the rest.
func notMadeYet(pod *v1.Pod, podClaim *v1.PodResourceClaim) bool {
	if podClaim.ResourceClaimName != nil || podClaim.ResourceClaimTemplateName == nil {
		return false
	}
	for i := range pod.Status.ResourceClaimStatuses {
		if pod.Status.ResourceClaimStatuses[i].Name == podClaim.Name {
			return false
		}
	}
	return true
}

// claim returns the latest known state of a claim, nil if it does not exist. The
// scheduler's manager knows what was written before the informer does, but may hear
// late of what others write, so that a pod which is woken by that would miss it.
func (pl *Quartermaster) claim(namespace, name string) *resourceapi.ResourceClaim {
	stored := informer.Object[resourceapi.ResourceClaim](pl.state.Claims, namespace+"/"+name)
	managed, err := pl.handle.SharedDRAManager().ResourceClaims().Get(namespace, name)
	if err != nil || managed == nil {
		return stored
	}
	if stored == nil || stored == managed {
		return managed
	}
	if objectversion.Newer(stored.ResourceVersion, managed.ResourceVersion) {
		return stored
	}
	return managed
}

// knownClaim returns some state of a claim, nil if it does not exist. It is good for what
// writes of the scheduler do not change, and only looks up one of the two places.
func (pl *Quartermaster) knownClaim(namespace, name string) *resourceapi.ResourceClaim {
	if stored := informer.Object[resourceapi.ResourceClaim](pl.state.Claims, namespace+"/"+name); stored != nil {
		return stored
	}
	return pl.claim(namespace, name)
}

// claimKeysOfPod indexes pods by "namespace/name" of the claims that they use.
func claimKeysOfPod(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	keys := sets.New[string]()
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil {
			keys.Insert(pod.Namespace + "/" + *name)
		}
	}
	return keys.UnsortedList(), nil
}

// podsUsing returns the known pods that use a claim.
func (pl *Quartermaster) podsUsing(namespace, claim string) ([]*v1.Pod, error) {
	objs, err := pl.pods.ByIndex(pl.podsByClaim, namespace+"/"+claim)
	if err != nil {
		return nil, fmt.Errorf("look up the pods that use claim %s/%s: %w", namespace, claim, err)
	}
	var pods []*v1.Pod
	for _, obj := range objs {
		if pod, ok := obj.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}
