package conflicts

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// errStarted is the reason for not evicting a pod.
var errStarted = errors.New("a container of it has started; somebody has to decide which of the two pods may go on")

// evictUsers evicts the pods that use a claim that has to yield. A pod that cannot be evicted gets an event. again
// reports whether a pod has changed meanwhile, so that evictUsers must be called again.
func (r *Reporter) evictUsers(ctx context.Context, ref ledger.ClaimRef, pool inventory.PoolID) (again bool) {
	claim := r.claim(ref)
	if claim == nil {
		return false
	}
	for _, pod := range r.Objects.Consumers(claim) {
		err := r.evict(ctx, pod, claim)
		switch {
		case err == nil:
			count(Evictions, pool)
		case apierrors.IsConflict(err):
			again = true
		case !apierrors.IsNotFound(err):
			r.Recorder.Eventf(pod, claim, v1.EventTypeWarning, conflictReason, "Evicting", "%s", fmt.Sprintf(
				"Claim %s is in conflict with a claim that was allocated first, but the pod was not evicted: %v", klog.KObj(claim), err))
		}
	}
	return again
}

// evict evicts a pod unless one of its containers has started, by the kubelet's last report: a container may start
// meanwhile. If the pod has changed since the informer saw it, the server refuses, and the error is a conflict (409).
func (r *Reporter) evict(ctx context.Context, pod *v1.Pod, claim *resourceapi.ResourceClaim) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	if hasStarted(pod) {
		return errStarted
	}
	klog.FromContext(ctx).Info("Evicting a pod because its claim is in conflict with one that was allocated first",
		"pod", klog.KObj(pod), "claim", klog.KObj(claim))
	return r.Client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}},
	})
}

// hasStarted reports whether any container of the pod runs or has ever run.
func hasStarted(pod *v1.Pod) bool {
	if pod.Status.Phase != "" && pod.Status.Phase != v1.PodPending {
		return true
	}
	for _, statuses := range [][]v1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			status := &statuses[i]
			if status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil || status.RestartCount > 0 {
				return true
			}
		}
	}
	return false
}
