package quartermaster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
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
		podClaim := &pod.Spec.ResourceClaims[i]
		name, mustCheckOwner, err := resourceclaim.Name(pod, podClaim)
		if err != nil {
			return nil, pl.missingClaim(pod, podClaim, err)
		}
		if name == nil || seen.Has(*name) {
			continue
		}
		seen.Insert(*name)
		claim := pl.claim(pod.Namespace, *name)
		if claim == nil {
			if err := pl.noClaims(); err != nil {
				return nil, fmt.Errorf("claim %s/%s (%s in the pod) cannot exist: %w", pod.Namespace, *name, podClaim.Name, err)
			}
			return nil, fmt.Errorf("claim %s/%s (%s in the pod) does not exist; waiting for it to be created",
				pod.Namespace, *name, podClaim.Name)
		}
		if claim.DeletionTimestamp != nil {
			return nil, fmt.Errorf("claim %s/%s is being deleted; waiting for a new one", pod.Namespace, *name)
		}
		if mustCheckOwner {
			if err := resourceclaim.IsForPod(pod, claim, pl.features.EnableDRAWorkloadResourceClaims); err != nil {
				return nil, fmt.Errorf("claim %s/%s cannot be used: %w", pod.Namespace, *name, err)
			}
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// claim returns the latest known state of a claim, nil if it does not exist. The
// scheduler's manager knows what was written before the informer does, but may hear
// late of what others write, so that a pod which is woken by that would miss it.
func (pl *Quartermaster) claim(namespace, name string) *resourceapi.ResourceClaim {
	stored := fromStore[resourceapi.ResourceClaim](pl.state.claims, namespace+"/"+name)
	managed, err := pl.handle.SharedDRAManager().ResourceClaims().Get(namespace, name)
	if err != nil || managed == nil {
		return stored
	}
	if stored == nil || stored == managed {
		return managed
	}
	if order, err := resourceversion.CompareResourceVersion(stored.ResourceVersion, managed.ResourceVersion); err == nil && order > 0 {
		return stored
	}
	return managed
}

// checkClaims is claimsOf without the claims.
func (pl *Quartermaster) checkClaims(pod *v1.Pod) error {
	_, err := pl.claimsOf(pod)
	return err
}

// missingClaim says why the name of a claim is not known.
func (pl *Quartermaster) missingClaim(pod *v1.Pod, podClaim *v1.PodResourceClaim, err error) error {
	if err := pl.noClaims(); err != nil {
		return fmt.Errorf("claim for %s in the pod cannot exist: %w", podClaim.Name, err)
	}
	if podClaim.ResourceClaimTemplateName != nil {
		return fmt.Errorf("claim for %s in the pod has not been created yet; waiting for it to be made from template %s/%s "+
			"(if this lasts, check that the template exists)", podClaim.Name, pod.Namespace, *podClaim.ResourceClaimTemplateName)
	}
	return fmt.Errorf("claim for %s in the pod: %w", podClaim.Name, err)
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
