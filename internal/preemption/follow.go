package preemption

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// Follow has the Release told of pods and claims by informers. It has to be called before these run.
func (r *Release) Follow(pods, claims cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: r.podHappened, DeleteFunc: r.podGone})
	if err != nil {
		return fmt.Errorf("watch pods for what they hold: %w", err)
	}
	_, err = claims.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: r.claimHappened, DeleteFunc: func(obj any) { r.claimHappened(obj, nil) }})
	if err != nil {
		return fmt.Errorf("watch claims for which preemptors wait: %w", err)
	}
	return nil
}

// podGone takes notice of a pod that was deleted. If the watch missed that, the state in which it was deleted is not known.
func (r *Release) podGone(obj any) {
	if last, ok := obj.(*v1.Pod); ok {
		r.podChanged(last, true)
	}
	r.podHappened(obj, nil)
}

// podHappened takes notice of a pod that may have ended, or may not wait for anything any more.
func (r *Release) podHappened(oldObj, newObj any) {
	before, after := informer.Versions[v1.Pod](oldObj, newObj)
	if before != nil && (after == nil || after.UID != before.UID) {
		r.podVanished(before)
		r.PodChanged(before)
		r.Forget(before.UID)
	}
	if after == nil {
		return
	}
	if podutil.IsPodTerminal(after) || after.DeletionTimestamp != nil {
		r.PodChanged(after)
	}
	if after.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == "") {
		r.Forget(after.UID)
	}
}

func (r *Release) claimHappened(oldObj, newObj any) {
	before, after := informer.Versions[resourceapi.ResourceClaim](oldObj, newObj)
	if before != nil {
		r.claimSeen(before.UID, after)
	}
	if after == nil {
		after = before
	}
	if after != nil {
		r.ClaimChanged(after)
	}
}
