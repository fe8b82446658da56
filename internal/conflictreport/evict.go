package conflictreport

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

// errStarted is why a pod is not evicted.
var errStarted = errors.New("a container of it has started; somebody has to decide which of the two pods may go on")

// evictUsers evicts the pods that use a claim which has to yield, and tells those that
// cannot be evicted. It returns whether a pod has changed meanwhile, so that it has to be looked
// at again.
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

// evict evicts a pod of which no container has started. What the kubelet has reported
// decides, so a container may start while this is looked at. If the pod has changed since
// we heard of it, the server refuses, and the error says so (409).
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

// hasStarted reports whether any container of the pod runs or ever ran.
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
