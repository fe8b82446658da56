package v1alpha2

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
)

// unresolved is the name of a claim's only request before Resolve. That request has no allocation mode, so no
// allocator accepts it.
const unresolved = "unresolved"

// ToHub converts a claim from the server. The result shares data with the claim.
//
// It does not convert status.deallocationRequested, which the caller must keep.
func ToHub(claim *ResourceClaim) (*resourceapi.ResourceClaim, error) {
	hub := &resourceapi.ResourceClaim{ObjectMeta: claim.ObjectMeta}
	hub.Finalizers = replaced(claim.Finalizers, Finalizer, resourceapi.Finalizer)
	hub.Spec = SpecToHub(&claim.Spec)
	hub.Status.ReservedFor = claim.Status.ReservedFor
	if claim.Status.Allocation != nil {
		allocation, err := allocationToHub(claim.Status.DriverName, claim.Status.Allocation)
		if err != nil {
			return nil, fmt.Errorf("convert the allocation of ResourceClaim %s from v1alpha2: %w", klog.KObj(claim), err)
		}
		hub.Status.Allocation = allocation
	}
	return hub, nil
}

// FromHub converts a claim from ToHub back, with later changes of its metadata and status, for the server.
// status.deallocationRequested is false.
//
// status.driverName is that of the allocation; without an allocation it is empty, even if it was set before.
func FromHub(hub *resourceapi.ResourceClaim) (*ResourceClaim, error) {
	spec, err := SpecFromHub(&hub.Spec)
	if err != nil {
		return nil, fmt.Errorf("ResourceClaim %s: %w", klog.KObj(hub), err)
	}
	claim := &ResourceClaim{
		ObjectMeta: hub.ObjectMeta,
		Spec:       *spec,
	}
	claim.Finalizers = replaced(hub.Finalizers, resourceapi.Finalizer, Finalizer)
	claim.Status.ReservedFor = hub.Status.ReservedFor
	if hub.Status.Allocation != nil {
		claim.Status.DriverName, claim.Status.Allocation, err = allocationFromHub(hub.Status.Allocation)
		if err != nil {
			return nil, fmt.Errorf("convert the allocation of ResourceClaim %s to v1alpha2: %w", klog.KObj(hub), err)
		}
	}
	return claim, nil
}

// SpecToHub converts the spec of a claim or template.
func SpecToHub(spec *ResourceClaimSpec) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{
			Name:    unresolved,
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: spec.ResourceClassName},
		}},
		Config: []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: carry(spec)}},
	}}
}

// SpecFromHub is the inverse of SpecToHub. It fails for any other spec.
func SpecFromHub(hub *resourceapi.ResourceClaimSpec) (*ResourceClaimSpec, error) {
	for i := range hub.Devices.Config {
		spec := &ResourceClaimSpec{}
		if found, err := carried(&hub.Devices.Config[i].DeviceConfiguration, spec); err != nil || found {
			return spec, err
		}
	}
	return nil, errors.New("it was to be used in v1alpha2 but was not read in that version: " +
		"requests of v1 cannot be converted; use a client for v1alpha2 to create it")
}

// IsFrom reports whether a claim of the hub comes from ToHub.
func IsFrom(hub *resourceapi.ResourceClaim) bool {
	config := hub.Spec.Devices.Config
	return len(config) > 0 && config[0].Opaque != nil && config[0].Opaque.Driver == Carrier
}

// replaced returns a copy of the list with one text replaced, or the list itself if it lacks the text.
func replaced(list []string, old, by string) []string {
	i := slices.Index(list, old)
	if i < 0 {
		return list
	}
	list = slices.Clone(list)
	list[i] = by
	return list
}
