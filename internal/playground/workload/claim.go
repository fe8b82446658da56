package workload

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Devices says what devices a request or one of its alternatives asks for.
type Devices struct {
	// Class is the name of the device class.
	Class string
	// Count is the number of devices; 0 leaves it to the API's default, 1.
	Count int64
	// All asks for all matching devices of a node instead of a count.
	All bool
	// Where are CEL expressions; a device has to satisfy all of them.
	Where []string
	// Tolerations let the request use tainted devices.
	Tolerations []resourceapi.DeviceToleration
	// Admin asks for access to devices no matter who holds them. It is not
	// possible in an alternative.
	Admin bool
	// Capacity is how much of a device's capacities is asked for, by name (KEP-5075).
	Capacity map[string]string
	// Derived are attributes that the claim makes up: a CEL expression by name (KEP-6080).
	Derived map[string]string
}

func (d Devices) mode() resourceapi.DeviceAllocationMode {
	if d.All {
		return resourceapi.DeviceAllocationModeAll
	}
	return resourceapi.DeviceAllocationModeExactCount
}

func (d Devices) selectors() []resourceapi.DeviceSelector {
	var selectors []resourceapi.DeviceSelector
	for _, expression := range d.Where {
		selectors = append(selectors, celSelector(expression))
	}
	return selectors
}

func (d Devices) capacity() *resourceapi.CapacityRequirements {
	if len(d.Capacity) == 0 {
		return nil
	}
	requests := make(map[resourceapi.QualifiedName]resource.Quantity, len(d.Capacity))
	for name, amount := range d.Capacity {
		requests[resourceapi.QualifiedName(name)] = resource.MustParse(amount)
	}
	return &resourceapi.CapacityRequirements{Requests: requests}
}

func (d Devices) derived() []resourceapi.DeviceDerivedAttribute {
	var attributes []resourceapi.DeviceDerivedAttribute
	for _, name := range slices.Sorted(maps.Keys(d.Derived)) {
		attributes = append(attributes, resourceapi.DeviceDerivedAttribute{
			Name: resourceapi.FullyQualifiedName(name), Expression: d.Derived[name],
		})
	}
	return attributes
}

func celSelector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// ClaimPart adds one thing to a claim: a request, a constraint, or a
// configuration.
type ClaimPart func(*resourceapi.DeviceClaim)

// Request asks for devices under a name.
func Request(name string, devices Devices) ClaimPart {
	return func(claim *resourceapi.DeviceClaim) {
		request := &resourceapi.ExactDeviceRequest{
			DeviceClassName: devices.Class,
			Selectors:       devices.selectors(),
			AllocationMode:  devices.mode(),
			Count:           devices.Count,
			Tolerations:     devices.Tolerations,
			Capacity:        devices.capacity(),

			DerivedAttributes: devices.derived(),
		}
		if devices.Admin {
			request.AdminAccess = ptr.To(true)
		}
		claim.Requests = append(claim.Requests, resourceapi.DeviceRequest{Name: name, Exactly: request})
	}
}

// Alternative is one of the choices of FirstAvailable.
type Alternative struct {
	Name string
	Devices
}

// FirstAvailable asks for the first of several alternatives that can be had.
func FirstAvailable(name string, alternatives ...Alternative) ClaimPart {
	return func(claim *resourceapi.DeviceClaim) {
		request := resourceapi.DeviceRequest{Name: name}
		for _, alternative := range alternatives {
			request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
				Name:            alternative.Name,
				DeviceClassName: alternative.Class,
				Selectors:       alternative.selectors(),
				AllocationMode:  alternative.mode(),
				Count:           alternative.Count,
				Tolerations:     alternative.Tolerations,
				Capacity:        alternative.capacity(),

				DerivedAttributes: alternative.derived(),
			})
		}
		claim.Requests = append(claim.Requests, request)
	}
}

// MatchAttribute wants all devices of the named requests (of all requests if
// none is named) to have the same value of an attribute.
func MatchAttribute(attribute string, requests ...string) ClaimPart {
	return func(claim *resourceapi.DeviceClaim) {
		claim.Constraints = append(claim.Constraints, resourceapi.DeviceConstraint{
			Requests: requests, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)),
		})
	}
}

// DistinctAttribute wants all devices of the named requests (of all requests
// if none is named) to have different values of an attribute.
func DistinctAttribute(attribute string, requests ...string) ClaimPart {
	return func(claim *resourceapi.DeviceClaim) {
		claim.Constraints = append(claim.Constraints, resourceapi.DeviceConstraint{
			Requests: requests, DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(attribute)),
		})
	}
}

// Config adds opaque parameters (JSON) for a driver, for the named requests or
// for all.
func Config(driver, parameters string, requests ...string) ClaimPart {
	return func(claim *resourceapi.DeviceClaim) {
		claim.Config = append(claim.Config, resourceapi.DeviceClaimConfiguration{
			Requests: requests, DeviceConfiguration: opaque(driver, parameters),
		})
	}
}

func opaque(driver, parameters string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
	}}
}

// Claim makes a claim out of its parts.
func Claim(name string, parts ...ClaimPart) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       claimSpec(parts),
	}
}

// Template makes a template for claims out of the claims' parts.
func Template(name string, parts ...ClaimPart) *resourceapi.ResourceClaimTemplate {
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: claimSpec(parts)},
	}
}

func claimSpec(parts []ClaimPart) resourceapi.ResourceClaimSpec {
	var spec resourceapi.ResourceClaimSpec
	for _, part := range parts {
		part(&spec.Devices)
	}
	return spec
}

// Tolerate tolerates the taints of devices with a key and an effect, whatever
// their value.
func Tolerate(key string, effect resourceapi.DeviceTaintEffect) resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{
		Key: key, Operator: resourceapi.DeviceTolerationOpExists, Effect: effect,
	}
}
