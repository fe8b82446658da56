package foreign

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// PodChanged handles an event about a pod. If a pod that existed at the start is bound, it only shows that its scheduler has
// run. The change of a pod that was bound before the Registry knew it does not make the pod count.
func (r *Registry) PodChanged(e informer.Event[v1.Pod]) {
	switch {
	case e.After == nil:
		r.Delete(e.Before.UID)
	case e.Before == nil:
		r.Add(e.After, e.Initial)
	default:
		r.Update(e.Before, e.After)
	}
}

// ClaimChanged handles an event about a claim, which may need devices now. It may come after those of the pods that use
// the claim; podsUsing returns those that are known.
func (r *Registry) ClaimChanged(e informer.Event[resourceapi.ResourceClaim], podsUsing func(namespace, claim string) ([]*v1.Pod, error)) {
	if e.After == nil || e.Before != nil && (e.Before.Status.Allocation == nil || e.After.Status.Allocation != nil) {
		return
	}
	if pods, err := podsUsing(e.After.Namespace, e.After.Name); err == nil { // The index exists.
		for _, pod := range pods {
			r.ClaimMade(pod.UID)
		}
	}
}
