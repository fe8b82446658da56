package foreign

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// Follow informs a registry about the pods of other schedulers and changes of their claims. podsUsing returns
// the known pods that use a claim. The registry may be incomplete until the registrations have synced.
func Follow(registry *Registry, pods, claims cache.SharedIndexInformer,
	podsUsing func(namespace, claim string) ([]*v1.Pod, error)) ([]cache.ResourceEventHandlerRegistration, error) {
	ofPods, err := followPods(registry, pods)
	if err != nil {
		return nil, fmt.Errorf("watch pods of other schedulers: %w", err)
	}
	ofClaims, err := followClaims(registry, claims, podsUsing)
	if err != nil {
		return nil, fmt.Errorf("watch claims for pods of other schedulers: %w", err)
	}
	return []cache.ResourceEventHandlerRegistration{ofPods, ofClaims}, nil
}

// followPods informs the registry about pods.
func followPods(registry *Registry, pods cache.SharedIndexInformer) (cache.ResourceEventHandlerRegistration, error) {
	return pods.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if pod, ok := obj.(*v1.Pod); ok {
				registry.Add(pod, initial)
			}
		},
		UpdateFunc: func(before, after any) {
			old, pod := informer.Versions[v1.Pod](before, after)
			if old != nil && pod != nil && old.UID != pod.UID {
				registry.Delete(old.UID)
			}
			if old != nil && pod != nil {
				registry.Update(old, pod)
			}
		},
		DeleteFunc: func(obj any) {
			if pod, _ := informer.Versions[v1.Pod](obj, nil); pod != nil {
				registry.Delete(pod.UID)
			}
		},
	})
}

// followClaims informs the registry about claims that now need devices. A claim's event may come after
// those of the pods that use it.
func followClaims(registry *Registry, claims cache.SharedIndexInformer,
	podsUsing func(namespace, claim string) ([]*v1.Pod, error)) (cache.ResourceEventHandlerRegistration, error) {
	opened := func(before, after any) {
		old, claim := informer.Versions[resourceapi.ResourceClaim](before, after)
		if claim == nil || old != nil && old.UID == claim.UID && (old.Status.Allocation == nil || claim.Status.Allocation != nil) {
			return
		}
		if pods, err := podsUsing(claim.Namespace, claim.Name); err == nil { // The index exists.
			for _, pod := range pods {
				registry.ClaimMade(pod.UID)
			}
		}
	}
	return claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { opened(nil, obj) },
		UpdateFunc: opened,
	})
}
