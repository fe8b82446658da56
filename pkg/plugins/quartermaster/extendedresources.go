package quartermaster

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// extendedResource is a resource that a pod's containers ask for by name and that devices
// may serve (KEP-5004): on a node where no device plugin offers it, if a device class
// stands for it. NodeResourcesFit leaves those nodes to this plugin.
type extendedResource struct {
	name v1.ResourceName
	// class stands for the resource, by its extendedResourceName or because the resource is
	// named after it. nil if there is none.
	class *resourceapi.DeviceClass
}

// extendedResources returns the extended resources in the requests of a pod's containers,
// sorted by name. It is nil for pods that ask for none, and if the feature is off.
func (pl *Quartermaster) extendedResources(pod *v1.Pod) []extendedResource {
	if !pl.features.EnableDRAExtendedResource {
		return nil
	}
	var result []extendedResource
	for container := range containersOf(pod) {
		for name, quantity := range container.Resources.Requests {
			if quantity.IsZero() || !util.IsDRAExtendedResourceName(name) || hasResource(result, name) {
				continue
			}
			result = append(result, extendedResource{name, pl.handle.SharedDRAManager().DeviceClassResolver().GetDeviceClass(name)})
		}
	}
	slices.SortFunc(result, func(a, b extendedResource) int { return strings.Compare(string(a.name), string(b.name)) })
	return result
}

// containersOf yields the init containers of a pod, then the others.
func containersOf(pod *v1.Pod) func(func(*v1.Container) bool) {
	return func(yield func(*v1.Container) bool) {
		for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if !yield(&containers[i]) {
					return
				}
			}
		}
	}
}

func hasResource(resources []extendedResource, name v1.ResourceName) bool {
	return slices.ContainsFunc(resources, func(r extendedResource) bool { return r.name == name })
}

// servedByClass reports whether a class stands for any of the resources.
func servedByClass(resources []extendedResource) bool {
	return slices.ContainsFunc(resources, func(r extendedResource) bool { return r.class != nil })
}

// asksFor reports whether a pod asks for an extended resource that the class stands for.
func asksFor(pod *v1.Pod, class *resourceapi.DeviceClass) bool {
	implicit := v1.ResourceName(resourceapi.ResourceDeviceClassPrefix + class.Name)
	for container := range containersOf(pod) {
		if _, asked := container.Resources.Requests[implicit]; asked {
			return true
		}
		if class.Spec.ExtendedResourceName == nil {
			continue
		}
		if _, asked := container.Resources.Requests[v1.ResourceName(*class.Spec.ExtendedResourceName)]; asked {
			return true
		}
	}
	return false
}
