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

// A Reader asks the server for a pod, nil if there is none.
type Reader interface {
	Pod(ctx context.Context, namespace, name string) (*v1.Pod, error)
}

// Record writes what a pod's devices take of its node into the pod's status, in place of what an earlier attempt left there. It fails
// if the pod is bound or gone: another process may have recorded what counts.
func Record(ctx context.Context, client kubernetes.Interface, reader Reader, pod *v1.Pod, status Status) error {
	written, err := replace(ctx, client, reader, pod, status)
	switch {
	case err != nil:
		return fmt.Errorf("record in the status of pod %s what its devices take of the node: %w", klog.KObj(pod), err)
	case written == nil:
		return fmt.Errorf("record in the status of pod %s what its devices take of the node: it is bound or gone", klog.KObj(pod))
	}
	if stored := written.Status.NodeAllocatableResourceClaimStatuses; len(stored) != len(status) {
		return fmt.Errorf("the API server has accepted status.nodeAllocatableResourceClaimStatuses with %d claims but has stored %d; "+
			"turn the feature gate DRANodeAllocatableResources on there or off in the scheduler", len(status), len(stored))
	}
	return nil
}

// Clear removes from a pod's status what Record wrote, unless the pod is bound: then the kubelet and all schedulers need it.
func Clear(ctx context.Context, client kubernetes.Interface, reader Reader, pod *v1.Pod) error {
	if _, err := replace(ctx, client, reader, pod, Status{}); err != nil {
		return fmt.Errorf("remove from the status of pod %s what its devices take of a node: %w", klog.KObj(pod), err)
	}
	return nil
}

// replace replaces the status of a pod that is not bound, and returns the pod then; nil if it is bound or gone. The write is based on
// the version that was read, so the pod is not bound meanwhile.
func replace(ctx context.Context, client kubernetes.Interface, reader Reader, pod *v1.Pod, status Status) (written *v1.Pod, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		stored, err := reader.Pod(ctx, pod.Namespace, pod.Name)
		if err != nil || stored == nil || stored.UID != pod.UID || stored.Spec.NodeName != "" {
			return err
		}
		if written = stored; len(status) == 0 && len(stored.Status.NodeAllocatableResourceClaimStatuses) == 0 {
			return nil
		}
		written, err = patch(ctx, client, stored, status)
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return written, err
}

// patch writes the status of a pod unless the pod has changed. A status without claims must be an empty list: without the
// field, the server leaves it as it is.
func patch(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, status Status) (*v1.Pod, error) {
	if status == nil {
		status = Status{}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"nodeAllocatableResourceClaimStatuses": status},
	})
	if err != nil {
		return nil, err
	}
	return client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
}
