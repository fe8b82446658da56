package builder

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Namespace is where claims live.
const Namespace = "default"

// Class makes a DeviceClass with CEL selectors.
func Class(name string, expressions ...string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: selectors(expressions)},
	}
}

// ConfiguredClass makes a DeviceClass that has one opaque configuration a driver.
func ConfiguredClass(name string, drivers ...string) *resourceapi.DeviceClass {
	class := Class(name)
	for _, driver := range drivers {
		class.Spec.Config = append(class.Spec.Config, resourceapi.DeviceClassConfiguration{DeviceConfiguration: opaque(driver)})
	}
	return class
}

// opaque makes a configuration that says for which driver it is.
func opaque(driver string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(`{"for":"` + driver + `"}`)},
	}}
}

func selectors(expressions []string) []resourceapi.DeviceSelector {
	var result []resourceapi.DeviceSelector
	for _, expression := range expressions {
		result = append(result, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return result
}

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

// Config adds an opaque configuration for a driver and the named requests, or for
// all if none is named.
func (b *ClaimBuilder) Config(driver string, requests ...string) *ClaimBuilder {
	b.claim.Spec.Devices.Config = append(b.claim.Spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
		Requests: requests, DeviceConfiguration: opaque(driver),
	})
	return b
}

// Modify changes what no method above does.
func (b *ClaimBuilder) Modify(change func(*resourceapi.ResourceClaim)) *ClaimBuilder {
	change(&b.claim)
	return b
}

// Obj returns the claim.
func (b *ClaimBuilder) Obj() *resourceapi.ResourceClaim { return b.claim.DeepCopy() }

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

// RequestBuilder makes a DeviceRequest: an exact one, or one with alternatives.
type RequestBuilder struct {
	name         string
	exact        resourceapi.ExactDeviceRequest
	alternatives []*RequestBuilder
}

// Request asks for one device of a class.
func Request(name, class string) *RequestBuilder {
	return &RequestBuilder{name: name, exact: resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}
}

// FirstAvailable asks for the first alternative that can be had (KEP-4816).
func FirstAvailable(name string, alternatives ...*RequestBuilder) *RequestBuilder {
	return &RequestBuilder{name: name, alternatives: alternatives}
}

// Count sets the number of devices.
func (b *RequestBuilder) Count(n int64) *RequestBuilder {
	b.exact.Count = n
	return b
}

// All asks for all matching devices.
func (b *RequestBuilder) All() *RequestBuilder {
	b.exact.AllocationMode = resourceapi.DeviceAllocationModeAll
	b.exact.Count = 0
	return b
}

// Where adds CEL selectors.
func (b *RequestBuilder) Where(expressions ...string) *RequestBuilder {
	b.exact.Selectors = append(b.exact.Selectors, selectors(expressions)...)
	return b
}

// Admin asks for administrative access (KEP-5018).
func (b *RequestBuilder) Admin() *RequestBuilder {
	b.exact.AdminAccess = ptr.To(true)
	return b
}

// Tolerate accepts taints with the key, or all taints if the key is empty.
func (b *RequestBuilder) Tolerate(key string) *RequestBuilder {
	b.exact.Tolerations = append(b.exact.Tolerations, resourceapi.DeviceToleration{
		Key: key, Operator: resourceapi.DeviceTolerationOpExists,
	})
	return b
}

// Capacity asks for an amount of a capacity (KEP-5075).
func (b *RequestBuilder) Capacity(name, quantity string) *RequestBuilder {
	return b.Modify(func(r *resourceapi.ExactDeviceRequest) {
		if r.Capacity == nil {
			r.Capacity = &resourceapi.CapacityRequirements{Requests: make(map[resourceapi.QualifiedName]resource.Quantity)}
		}
		r.Capacity.Requests[resourceapi.QualifiedName(name)] = resource.MustParse(quantity)
	})
}

// Modify changes what no method above does.
func (b *RequestBuilder) Modify(change func(*resourceapi.ExactDeviceRequest)) *RequestBuilder {
	change(&b.exact)
	return b
}

func (b *RequestBuilder) request() resourceapi.DeviceRequest {
	if len(b.alternatives) == 0 {
		return resourceapi.DeviceRequest{Name: b.name, Exactly: b.exact.DeepCopy()}
	}
	request := resourceapi.DeviceRequest{Name: b.name}
	for _, alternative := range b.alternatives {
		exact := alternative.exact
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: alternative.name, DeviceClassName: exact.DeviceClassName, Selectors: exact.Selectors,
			AllocationMode: exact.AllocationMode, Count: exact.Count, Tolerations: exact.Tolerations,
			Capacity: exact.Capacity, DerivedAttributes: exact.DerivedAttributes,
		})
	}
	return request
}
