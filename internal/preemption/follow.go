package preemption

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
)

// PodHappened handles an event about a pod that may have ended, or may not wait for anything any more. If the watch missed the
// deletion of a pod, the state in which it was deleted is not known.
func (r *Release) PodHappened(e informer.Event[v1.Pod]) {
	if before := e.Before; e.After == nil {
		r.podVanished(before)
		r.podChanged(before, !e.Missed)
		r.Await(before.UID)
		return
	}
	if podutil.IsPodTerminal(e.After) || e.After.DeletionTimestamp != nil {
		r.podChanged(e.After, false)
	}
	if e.After.Spec.NodeName != "" && (e.Before == nil || e.Before.Spec.NodeName == "") {
		r.Await(e.After.UID)
	}
}

// ClaimHappened handles an event about a claim that preemptors may wait for.
func (r *Release) ClaimHappened(e informer.Event[resourceapi.ResourceClaim]) {
	if e.Before != nil {
		r.claimSeen(e.Before.UID, e.After)
	}
	r.ClaimChanged(e.Latest())
}
