package nodeallocatable

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// Record writes what a pod's devices take of its node into the pod's status, in place of what an earlier attempt left there.
func Record(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, status Status) error {
	if status == nil {
		status = Status{} // Without the field, the server changes nothing.
	}
	answer, err := patch(ctx, client, pod, "", status)
	if err != nil {
		return fmt.Errorf("record in the status of pod %s what its devices take of the node: %w", klog.KObj(pod), err)
	}
	if stored := answer.Status.NodeAllocatableResourceClaimStatuses; len(stored) != len(status) {
		return fmt.Errorf("the API server has accepted status.nodeAllocatableResourceClaimStatuses with %d claims but has stored %d; "+
			"turn the feature gate DRANodeAllocatableResources on there or off in the scheduler", len(status), len(stored))
	}
	return nil
}

// A Reader asks the server for a pod, nil if there is none.
type Reader interface {
	Pod(ctx context.Context, namespace, name string) (*v1.Pod, error)
}

// Clear removes from a pod's status what Record wrote, unless the pod is bound: then the kubelet and all schedulers need it.
func Clear(ctx context.Context, client kubernetes.Interface, reader Reader, pod *v1.Pod) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		stored, err := reader.Pod(ctx, pod.Namespace, pod.Name)
		if err != nil {
			return err
		}
		if stored == nil || stored.UID != pod.UID || stored.Spec.NodeName != "" || len(stored.Status.NodeAllocatableResourceClaimStatuses) == 0 {
			return nil
		}
		_, err = patch(ctx, client, stored, stored.ResourceVersion, Status{})
		return err
	})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("remove from the status of pod %s what its devices take of a node: %w", klog.KObj(pod), err)
}

// patch replaces the status of a pod, with a version only if that is still the newest one.
func patch(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, version string, status Status) (*v1.Pod, error) {
	metadata := map[string]any{"uid": pod.UID}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	body, err := json.Marshal(map[string]any{
		"metadata": metadata, "status": map[string]any{"nodeAllocatableResourceClaimStatuses": status},
	})
	if err != nil {
		return nil, err
	}
	return client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
}
