package extended

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Resource is an extended resource in the requests of a pod's containers. Devices may back it on a
// node where no device plugin offers it, if there is a device class for it. NodeResourcesFit leaves
// those nodes to this scheduler's plugin.
type Resource struct {
	Name v1.ResourceName
	// Class is the device class for the resource, by its extendedResourceName or because the
	// resource is named after it; nil if there is none.
	Class *resourceapi.DeviceClass
}

// Of returns the extended resources in the requests of a pod's containers, sorted by name, nil if
// there are none.
func Of(pod *v1.Pod, classes fwk.DeviceClassResolver) []Resource {
	var names []v1.ResourceName // A pod can have tens of thousands.
	for container := range containersOf(pod) {
		for name, quantity := range container.Resources.Requests {
			if !quantity.IsZero() && kube.IsDRAExtendedResourceName(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	var result []Resource
	for _, name := range slices.Compact(names) {
		result = append(result, Resource{name, classes.GetDeviceClass(name)})
	}
	return result
}

// containersOf yields the init containers of a pod, then the other containers.
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

// Backed returns the resources that have a class.
func Backed(resources []Resource) []Resource {
	var backed []Resource
	for _, resource := range resources {
		if resource.Class != nil {
			backed = append(backed, resource)
		}
	}
	return backed
}

// AnyBacked reports whether any of the resources has a class.
func AnyBacked(resources []Resource) bool {
	return slices.ContainsFunc(resources, func(r Resource) bool { return r.Class != nil })
}

// Backing says which resources devices can back, by the classes that kube-scheduler knows.
type Backing struct {
	// Handle has the manager of the classes once all plugins are made.
	Handle interface{ SharedDRAManager() fwk.SharedDRAManager }
}

// Backed reports whether a resource has a class.
func (b Backing) Backed(name v1.ResourceName) bool {
	return kube.IsDRAExtendedResourceName(name) && b.Handle.SharedDRAManager().DeviceClassResolver().GetDeviceClass(name) != nil
}

// AsksFor reports whether a pod asks for an extended resource of the class.
func AsksFor(pod *v1.Pod, class *resourceapi.DeviceClass) bool {
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

// Unbacked lists extended resources that had no class when an attempt began, so that no devices
// back them. It implements fwk.StateData.
type Unbacked []v1.ResourceName

// NewUnbacked returns the names of resources without a class.
func NewUnbacked(resources []Resource) Unbacked {
	names := make(Unbacked, len(resources))
	for i, resource := range resources {
		names[i] = resource.Name
	}
	return names
}

// Clone implements fwk.StateData.
func (u Unbacked) Clone() fwk.StateData { return u }

// Check returns an error if any of them has a class by now. NodeResourcesFit may then have left
// nodes to the plugin although the plugin did not check them, and the pod would run there without
// devices.
func (u Unbacked) Check(classes fwk.DeviceClassResolver) error {
	for _, name := range u {
		if class := classes.GetDeviceClass(name); class != nil {
			return fmt.Errorf("device class %s stands for extended resource %s since the pod was looked at; trying again", class.Name, name)
		}
	}
	return nil
}
