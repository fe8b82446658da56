package builder

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

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

// FirstAvailable asks for the first alternative that can be allocated (KEP-4816).
func FirstAvailable(name string, alternatives ...*RequestBuilder) *RequestBuilder {
	return &RequestBuilder{name: name, alternatives: alternatives}
}

// Named renames the request.
func (b *RequestBuilder) Named(name string) *RequestBuilder {
	b.name = name
	return b
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

// Tolerate accepts taints with the key, or all taints if the key is empty; of one
// effect, or of all effects if none is named.
func (b *RequestBuilder) Tolerate(key string, effect ...resourceapi.DeviceTaintEffect) *RequestBuilder {
	b.exact.Tolerations = append(b.exact.Tolerations, Toleration(key, effect...))
	return b
}

// Toleration returns the toleration that RequestBuilder.Tolerate adds.
func Toleration(key string, effect ...resourceapi.DeviceTaintEffect) resourceapi.DeviceToleration {
	toleration := resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists}
	if len(effect) > 0 {
		toleration.Effect = effect[0]
	}
	return toleration
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

// Derive adds an attribute that a CEL expression derives from the devices (KEP-6080).
func (b *RequestBuilder) Derive(name, expression string) *RequestBuilder {
	b.exact.DerivedAttributes = append(b.exact.DerivedAttributes, resourceapi.DeviceDerivedAttribute{
		Name: resourceapi.FullyQualifiedName(name), Expression: expression,
	})
	return b
}

// Modify makes any other change.
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
