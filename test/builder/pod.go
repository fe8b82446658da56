package builder

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Pod makes a pod in the namespace of claims. Its UID is derived from its name.
func Pod(name string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, UID: types.UID("uid-pod-" + name)}}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

// Container adds a container that asks for resources: name, quantity and so on.
func Container(name string, resources ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, container(name, resources)) }
}

// InitContainer works like Container, for a container that ends before those after it begin.
func InitContainer(name string, resources ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(name, resources))
	}
}

// Sidecar works like Container, for a container that begins before those after it, and runs along with them.
func Sidecar(name string, resources ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		sidecar := container(name, resources)
		sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, sidecar)
	}
}

func container(name string, resources []string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: Resources(resources...)}}
}

// Resources lists resources: name, quantity and so on.
func Resources(pairs ...string) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}
