package checker

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// extendedClaim returns the resources that the pod needs from the node itself, and a claim for the extended resources that no
// device plugin offers there but that have a device class (KEP-5004), nil if there are none.
func (o *oracle) extendedClaim(pod *corev1.Pod, node *corev1.Node) (corev1.ResourceList, *resourceapi.ResourceClaim) {
	own, claim := corev1.ResourceList{}, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + " (extended resources)", UID: pod.UID}}
	needs := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	for _, name := range sortedKeys(needs) {
		amount, offered := needs[name], node.Status.Allocatable[name]
		class := o.classes.behind(name)
		switch {
		case amount.IsZero():
		case class == nil || !offered.IsZero():
			own[name] = amount
		default:
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("r-%d", len(claim.Spec.Devices.Requests)), Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: class.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: devicesFor(pod, name),
			}})
		}
	}
	if len(claim.Spec.Devices.Requests) == 0 {
		claim = nil
	}
	return own, claim
}

// devicesFor returns the number of devices that the containers of the pod need. Containers that run at the same time have devices
// of their own. An init container that ends before uses the devices of later ones; the largest shortage of such a container is
// added.
func devicesFor(pod *corev1.Pod, name corev1.ResourceName) int64 {
	lasting, lack := int64(0), int64(0)
	count := func(container *corev1.Container) int64 {
		amount := container.Resources.Requests[name]
		return amount.Value()
	}
	for i := range pod.Spec.Containers {
		lasting += count(&pod.Spec.Containers[i])
	}
	for i := range slices.Backward(pod.Spec.InitContainers) {
		container := &pod.Spec.InitContainers[i]
		if ptr.Deref(container.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			lasting += count(container)
		} else {
			lack = max(lack, count(container)-lasting)
		}
	}
	return lasting + lack
}

// behind returns the class of an extended resource, nil if there is none: the class that the resource is named after, or else the
// newest class with that resource name.
func (c classes) behind(name corev1.ResourceName) (found *resourceapi.DeviceClass) {
	if implicit, isImplicit := strings.CutPrefix(string(name), resourceapi.ResourceDeviceClassPrefix); isImplicit {
		found, _ = c.Get(implicit)
		return found
	}
	for _, class := range c { // sorted by name
		if ptr.Deref(class.Spec.ExtendedResourceName, "") == string(name) && (found == nil || class.CreationTimestamp.After(found.CreationTimestamp.Time)) {
			found = class
		}
	}
	return found
}

// isLeftOf reports whether an attempt for the pod has made the claim for extended resources. The next attempt uses or deletes it.
func isLeftOf(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && metav1.IsControlledBy(claim, pod)
}
