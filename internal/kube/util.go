package kube

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// As returns the objects of an event as T. An object whose deletion the informer missed is unpacked.
func As[T any](oldObject, newObject any) (before, after T, err error) {
	return util.As[T](oldObject, newObject)
}

// IsDRAExtendedResourceName reports whether devices may back a resource (KEP-5004).
func IsDRAExtendedResourceName(name v1.ResourceName) bool {
	return util.IsDRAExtendedResourceName(name)
}

// IsNotAssumable reports whether the scheduler's cache of claims refused a claim that it does not know yet.
func IsNotAssumable(err error) bool { return errors.Is(err, assumecache.ErrNotFound) }

// PatchPodStatus writes what a status has changed of the one that the pod has.
func PatchPodStatus(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, status *v1.PodStatus) error {
	return util.PatchPodStatus(ctx, client, pod.Name, pod.Namespace, &pod.Status, status)
}

// PodStartTime returns when a pod started, and the current time for one that has not.
func PodStartTime(pod *v1.Pod) *metav1.Time { return util.GetPodStartTime(pod) }
