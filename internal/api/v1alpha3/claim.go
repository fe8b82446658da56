package v1alpha3

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxConsumers is the limit of entries in status.reservedFor in 1.31. Later servers have a higher limit, but also
// have v1beta1, which is preferred.
const MaxConsumers = 32

// ResourceClaim asks for devices; after the allocation it holds them.
type ResourceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceClaimSpec   `json:"spec"`
	Status ResourceClaimStatus `json:"status,omitempty"`
}

// ResourceClaimSpec has the requests. It is immutable.
type ResourceClaimSpec struct {
	Devices DeviceClaim `json:"devices"`
	// Controller is the controller that allocates the claim; "" means the scheduler.
	Controller string `json:"controller,omitempty"`
}

// DeviceClaim has requests for devices.
type DeviceClaim struct {
	Requests    []DeviceRequest                        `json:"requests"`
	Constraints []DeviceConstraint                     `json:"constraints,omitempty"`
	Config      []resourceapi.DeviceClaimConfiguration `json:"config,omitempty"`
}

// DeviceRequest asks for one or several devices of one class.
type DeviceRequest struct {
	Name            string                           `json:"name"`
	DeviceClassName string                           `json:"deviceClassName"`
	Selectors       []resourceapi.DeviceSelector     `json:"selectors,omitempty"`
	AllocationMode  resourceapi.DeviceAllocationMode `json:"allocationMode,omitempty"`
	Count           int64                            `json:"count,omitempty"`
	AdminAccess     *bool                            `json:"adminAccess,omitempty"`
	// FirstAvailable has alternatives (KEP-4816), which replace all fields above except the name. Like Tolerations,
	// it exists since 1.33.
	FirstAvailable []resourceapi.DeviceSubRequest `json:"firstAvailable,omitempty"`
	Tolerations    []resourceapi.DeviceToleration `json:"tolerations,omitempty"`
}

// DeviceConstraint names an attribute that the devices of some requests must have in common.
type DeviceConstraint struct {
	Requests       []string                        `json:"requests,omitempty"`
	MatchAttribute *resourceapi.FullyQualifiedName `json:"matchAttribute,omitempty"`
}

// ResourceClaimStatus has the devices and the consumers of the claim.
type ResourceClaimStatus struct {
	Allocation  *AllocationResult                            `json:"allocation,omitempty"`
	ReservedFor []resourceapi.ResourceClaimConsumerReference `json:"reservedFor,omitempty"`
	// DeallocationRequested forbids new consumers. It requires an allocation, and is removed with it.
	DeallocationRequested bool `json:"deallocationRequested,omitempty"`
	// Devices exists since 1.32.
	Devices []resourceapi.AllocatedDeviceStatus `json:"devices,omitempty"`
}

// AllocationResult has the devices of a claim. It is immutable.
type AllocationResult struct {
	Devices      DeviceAllocationResult `json:"devices,omitempty"`
	NodeSelector *v1.NodeSelector       `json:"nodeSelector,omitempty"`
	// Controller is the controller that has allocated the claim; "" means a scheduler.
	Controller string `json:"controller,omitempty"`
}

// DeviceAllocationResult has the devices and their configuration.
type DeviceAllocationResult struct {
	Results []DeviceRequestAllocationResult             `json:"results,omitempty"`
	Config  []resourceapi.DeviceAllocationConfiguration `json:"config,omitempty"`
}

// DeviceRequestAllocationResult is one device.
type DeviceRequestAllocationResult struct {
	Request string `json:"request"`
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	// AdminAccess exists since 1.32.
	AdminAccess *bool `json:"adminAccess,omitempty"`
	// Tolerations exist since 1.33.
	Tolerations []resourceapi.DeviceToleration `json:"tolerations,omitempty"`
}

// ResourceClaimTemplate is a template for claims.
type ResourceClaimTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceClaimTemplateSpec `json:"spec"`
}

// ResourceClaimTemplateSpec has the contents of each claim.
type ResourceClaimTemplateSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceClaimSpec `json:"spec"`
}
