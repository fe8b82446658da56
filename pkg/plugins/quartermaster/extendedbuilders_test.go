package quartermaster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
)

// gpuResource is the extended resource of class gpu, and implicitGPU its other name.
const (
	gpuResource = "example.com/gpu"
	nicResource = "example.com/nic"
	implicitGPU = resourceapi.ResourceDeviceClassPrefix + "gpu"
)

// asks adds a container that asks for resources: name, quantity and so on.
func asks(name string, resources ...string) func(*v1.Pod) {
	return builder.Container(name, resources...)
}

// many makes n containers that ask for one each.
func many(n int, resource string) []func(*v1.Pod) {
	var containers []func(*v1.Pod)
	for i := range n {
		containers = append(containers, asks(fmt.Sprintf("c%d", i), resource, "1"))
	}
	return containers
}

// gpuPod asks for GPUs as extended resource.
func gpuPod(name, quantity string, edits ...func(*v1.Pod)) *v1.Pod {
	return newPod(name, append([]func(*v1.Pod){asks("main", gpuResource, quantity)}, edits...)...)
}

// servingClass is a class that stands for an extended resource.
func servingClass(name, resource string) *resourceapi.DeviceClass {
	return serving(builder.Class(name), resource)
}

func serving(class *resourceapi.DeviceClass, resource string) *resourceapi.DeviceClass {
	class.Spec.ExtendedResourceName = &resource
	return class
}

// offering is a node where a device plugin offers resources: name, quantity and so on.
func offering(node string, resources ...string) *v1.Node {
	result := builder.Node(node)
	result.Status.Allocatable = builder.Resources(resources...)
	return result
}

// servedNodes is gpuNodes with a class that stands for gpuResource.
func servedNodes(n int, names ...string) []runtime.Object {
	objects := gpuNodes(n, names...)
	objects[0] = servingClass("gpu", gpuResource)
	return objects
}
