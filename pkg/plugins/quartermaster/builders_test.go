package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// newPod makes a pod in the namespace of claims. Its UID is derived from its name.
func newPod(name string, edits ...func(*v1.Pod)) *v1.Pod {
	return builder.Pod(name, edits...)
}

// uses adds a claim by name.
func uses(claim string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "by-name-" + claim, ResourceClaimName: &claim})
	}
}

// template adds a claim from a template of the same name that was not made yet.
func template(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: name, ResourceClaimTemplateName: ptr.To("template-" + name)})
	}
}

// made records the claim made from a template; "" means that none is needed.
func made(name, claim string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		status := v1.PodResourceClaimStatus{Name: name}
		if claim != "" {
			status.ResourceClaimName = &claim
		}
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, status)
	}
}

// ownedBy makes a claim one that was made for the pod.
func ownedBy(pod string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.OwnerReferences = append(claim.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("uid-pod-" + pod), Controller: ptr.To(true),
		})
	}
}

// calledByPod makes a claim one that was created from a template, and records its name in the pod spec.
func calledByPod(name string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: name}
	}
}

// reservedFor adds consumers, which need not be pods that exist.
func reservedFor(pods ...string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		for _, pod := range pods {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(pod))
		}
	}
}

func consumer(pod string) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID("uid-pod-" + pod)}
}

// with applies edits to a copy.
func with(claim *resourceapi.ResourceClaim, edits ...func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	for _, edit := range edits {
		edit(claim)
	}
	return claim
}

// onNode restricts an allocation to the node of that name.
func onNode(name string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation.NodeSelector = builder.NodeSelector("kubernetes.io/hostname", name)
	}
}

// gpus is a claim with one request for n devices of class gpu.
func gpus(name string, n int64) *builder.ClaimBuilder {
	return builder.Claim(name, builder.Request("gpu", "gpu").Count(n))
}

// gpuNodes makes class gpu and nodes that have one pool with n GPUs each: gpu-0 and so on.
func gpuNodes(n int, names ...string) []runtime.Object {
	objects := []runtime.Object{builder.Class("gpu")}
	for _, name := range names {
		objects = append(objects, builder.Node(name), builder.NodeSlice(name, builder.NumberedDevices("gpu", n)...).Obj())
	}
	return objects
}

// plus appends to a list of objects.
func plus(objects []runtime.Object, more ...runtime.Object) []runtime.Object {
	return append(objects[:len(objects):len(objects)], more...)
}

// deviceNames lists the allocated devices of a claim as pool/device.
func deviceNames(claim *resourceapi.ResourceClaim) []string {
	var devices []string
	if claim.Status.Allocation != nil {
		for _, result := range claim.Status.Allocation.Devices.Results {
			devices = append(devices, result.Pool+"/"+result.Device)
		}
	}
	return devices
}

// consumerNames returns the names of a claim's consumers.
func consumerNames(claim *resourceapi.ResourceClaim) []string {
	var names []string
	for _, consumer := range claim.Status.ReservedFor {
		names = append(names, consumer.Name)
	}
	return names
}

// allocate gives devices of a pool to an existing claim, as another scheduler would.
func allocate(pool string, devices ...string) func(*resourceapi.ResourceClaim) {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Finalizers = []string{resourceapi.Finalizer}
		claim.Status.Allocation = builder.Claim("", builder.Request("gpu", "gpu")).Allocated(pool, devices...).Status.Allocation
	}
}

// deallocate takes all devices away.
func deallocate(claim *resourceapi.ResourceClaim) {
	claim.Status.Allocation, claim.Status.ReservedFor = nil, nil
}
