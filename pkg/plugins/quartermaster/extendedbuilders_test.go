package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gpuResource is the extended resource of class gpu, and implicitGPU its other name.
const (
	gpuResource = "example.com/gpu"
	nicResource = "example.com/nic"
	implicitGPU = resourceapi.ResourceDeviceClassPrefix + "gpu"
)

// asks adds a container that asks for resources: name, quantity and so on.
func asks(name string, resources ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, container(name, resources)) }
}

func asksFirst(name string, resources ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(name, resources))
	}
}

func sidecar(name string, resources ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		asksFirst(name, resources...)(pod)
		pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1].RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	}
}

func container(name string, resources []string) v1.Container {
	requests := v1.ResourceList{}
	for i := 0; i < len(resources); i += 2 {
		requests[v1.ResourceName(resources[i])] = resource.MustParse(resources[i+1])
	}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: requests}}
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
	result.Status.Allocatable = container("", resources).Resources.Requests
	return result
}

// servedNodes is gpuNodes with a class that stands for gpuResource.
func servedNodes(n int, names ...string) []runtime.Object {
	objects := gpuNodes(n, names...)
	objects[0] = servingClass("gpu", gpuResource)
	return objects
}
