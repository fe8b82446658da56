package checker

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	driver    = builder.Driver
	namespace = "train"
)

// cluster is a set of objects that a test changes before the check.
type cluster struct {
	nodes  []*corev1.Node
	slices []*resourceapi.ResourceSlice
	claims []*resourceapi.ResourceClaim
	pods   []*corev1.Pod
	others []runtime.Object
}

func (c *cluster) objects() []runtime.Object {
	objects := slices.Clone(c.others)
	for _, node := range c.nodes {
		objects = append(objects, node)
	}
	for _, slice := range c.slices {
		objects = append(objects, slice)
	}
	for _, claim := range c.claims {
		objects = append(objects, claim)
	}
	for _, pod := range c.pods {
		objects = append(objects, pod)
	}
	return objects
}

func newNode(name string) *corev1.Node { return builder.Node(name, "rack", name) }

// newSlice returns a slice of the pool with the name of the node, local to that node.
func newSlice(name, node string, devices ...*builder.DeviceBuilder) *resourceapi.ResourceSlice {
	return builder.Slice(name).InPool(node, 1, 1).OnNode(node).Devices(devices...).Obj()
}

func counters(name, value string) map[string]resourceapi.Counter {
	return map[string]resourceapi.Counter{name: {Value: resource.MustParse(value)}}
}

type claimBuilder func(*resourceapi.ResourceClaim)

func newClaim(name string, builders ...claimBuilder) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}}
	for _, build := range builders {
		build(claim)
	}
	return claim
}

// request adds a request for an exact number of devices.
func request(name string, count int64) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name:    name,
			Exactly: &resourceapi.ExactDeviceRequest{AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count},
		})
	}
}

// lastExactly changes the request that was added last.
func lastExactly(change func(*resourceapi.ExactDeviceRequest)) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		requests := claim.Spec.Devices.Requests
		change(requests[len(requests)-1].Exactly)
	}
}

// firstAvailable adds a request for one "large" device or two "small" ones.
func firstAvailable(name string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: name,
			FirstAvailable: []resourceapi.DeviceSubRequest{
				{Name: "large", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
				{Name: "small", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
			},
		})
	}
}

func match(name resourceapi.FullyQualifiedName, requests ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{Requests: requests, MatchAttribute: &name})
	}
}

func distinct(name resourceapi.FullyQualifiedName, requests ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{Requests: requests, DistinctAttribute: &name})
	}
}

// allocated gives devices of a pool to a request. Without node selector, they can be
// used everywhere as far as the claim is concerned.
func allocated(request, pool string, devices ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		if claim.Status.Allocation == nil {
			claim.Status.Allocation = &resourceapi.AllocationResult{}
			claim.Finalizers = []string{resourceapi.Finalizer}
		}
		for _, device := range devices {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
				Request: request, Driver: driver, Pool: pool, Device: device,
			})
		}
	}
}

// lastResult changes the device that was allocated last.
func lastResult(change func(*resourceapi.DeviceRequestAllocationResult)) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		results := claim.Status.Allocation.Devices.Results
		change(&results[len(results)-1])
	}
}

func share(id types.UID, memory string) claimBuilder {
	return lastResult(func(result *resourceapi.DeviceRequestAllocationResult) {
		result.ShareID = &id
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	})
}

// adminAccess makes the last request and the last result use admin access.
func adminAccess(claim *resourceapi.ResourceClaim) {
	lastExactly(func(exactly *resourceapi.ExactDeviceRequest) { exactly.AdminAccess = ptr.To(true) })(claim)
	lastResult(func(result *resourceapi.DeviceRequestAllocationResult) { result.AdminAccess = ptr.To(true) })(claim)
}

func onNode(name string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
		}}}
	}
}

func reserved(pods ...string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		for _, pod := range pods {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod + "-uid")})
		}
	}
}

// generatedFor makes the claim one that was generated from a template.
func generatedFor(pod, entry string) claimBuilder {
	return func(claim *resourceapi.ResourceClaim) {
		claim.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: entry}
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(pod + "-uid"), Controller: ptr.To(true)}}
	}
}

type podBuilder func(*corev1.Pod)

func newPod(name string, builders ...podBuilder) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}}
	for _, build := range builders {
		build(pod)
	}
	return pod
}

func boundTo(node string) podBuilder {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = node }
}

func phase(phase corev1.PodPhase) podBuilder {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

// uses adds an entry for a claim by name.
func uses(claim string) podBuilder {
	return func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
}

// usesTemplate adds an entry for a template; claim is the generated one, empty if it
// was not generated yet.
func usesTemplate(entry, claim string) podBuilder {
	return func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: entry, ResourceClaimTemplateName: ptr.To("template")})
		if claim != "" {
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: entry, ResourceClaimName: &claim})
		}
	}
}
