package builder

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Namespace is where claims live.
const Namespace = "default"

// ClaimBuilder makes a ResourceClaim.
type ClaimBuilder struct {
	claim resourceapi.ResourceClaim
}

// Claim starts a claim. Its UID is derived from its name.
func Claim(name string, requests ...*RequestBuilder) *ClaimBuilder {
	b := &ClaimBuilder{claim: resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, UID: types.UID("uid-" + name), ResourceVersion: "1"},
	}}
	for _, request := range requests {
		b.claim.Spec.Devices.Requests = append(b.claim.Spec.Devices.Requests, request.request())
	}
	return b
}

// In sets the namespace.
func (b *ClaimBuilder) In(namespace string) *ClaimBuilder {
	b.claim.Namespace = namespace
	return b
}

// Match demands that all devices (of the named requests) have the same attribute value.
func (b *ClaimBuilder) Match(attribute string, requests ...string) *ClaimBuilder {
	b.claim.Spec.Devices.Constraints = append(b.claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
		Requests: requests, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)),
	})
	return b
}

// Distinct demands that all devices (of the named requests) differ in an attribute.
func (b *ClaimBuilder) Distinct(attribute string, requests ...string) *ClaimBuilder {
	b.claim.Spec.Devices.Constraints = append(b.claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
		Requests: requests, DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)),
	})
	return b
}

// Config adds opaque parameters (JSON) for a driver and the named requests, or for
// all if none is named.
func (b *ClaimBuilder) Config(driver, parameters string, requests ...string) *ClaimBuilder {
	b.claim.Spec.Devices.Config = append(b.claim.Spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
		Requests: requests, DeviceConfiguration: Opaque(driver, parameters),
	})
	return b
}

// Modify makes any other change.
func (b *ClaimBuilder) Modify(change func(*resourceapi.ResourceClaim)) *ClaimBuilder {
	change(&b.claim)
	return b
}

// Obj returns the claim.
func (b *ClaimBuilder) Obj() *resourceapi.ResourceClaim { return b.claim.DeepCopy() }

// Template returns a template for claims like this one.
func (b *ClaimBuilder) Template() *resourceapi.ResourceClaimTemplate {
	claim := b.Obj()
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: claim.Namespace},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: claim.Spec},
	}
}

// Allocated returns the claim as if the named devices of a pool of Driver had
// been allocated for its first request.
func (b *ClaimBuilder) Allocated(pool string, devices ...string) *resourceapi.ResourceClaim {
	claim := b.Obj()
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	request := "gpu"
	if requests := claim.Spec.Devices.Requests; len(requests) > 0 {
		request = requests[0].Name
	}
	for _, device := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: request, Driver: Driver, Pool: pool, Device: device})
	}
	return claim
}
