package v1alpha3

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxConsumers is how many entries status.reservedFor can have in 1.31. Later servers take
// more, but they have v1beta1, too, which is preferred.
const MaxConsumers = 32

// ResourceClaim asks for devices, and has them once it is allocated.
type ResourceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceClaimSpec   `json:"spec"`
	Status ResourceClaimStatus `json:"status,omitempty"`
}

// ResourceClaimSpec is what is asked for. It never changes.
type ResourceClaimSpec struct {
	Devices DeviceClaim `json:"devices"`
	// Controller allocates the claim. Empty: the scheduler does.
	Controller string `json:"controller,omitempty"`
}

// DeviceClaim is the requests for devices.
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
	// FirstAvailable are alternatives (KEP-4816), instead of all fields above but the name.
	// Like Tolerations, it is of 1.33.
	FirstAvailable []resourceapi.DeviceSubRequest `json:"firstAvailable,omitempty"`
	Tolerations    []resourceapi.DeviceToleration `json:"tolerations,omitempty"`
}

// DeviceConstraint is what the devices of some requests must have in common.
type DeviceConstraint struct {
	Requests       []string                        `json:"requests,omitempty"`
	MatchAttribute *resourceapi.FullyQualifiedName `json:"matchAttribute,omitempty"`
}

// ResourceClaimStatus is what the claim has and who uses it.
type ResourceClaimStatus struct {
	Allocation  *AllocationResult                            `json:"allocation,omitempty"`
	ReservedFor []resourceapi.ResourceClaimConsumerReference `json:"reservedFor,omitempty"`
	// DeallocationRequested forbids new consumers. It needs an allocation, and goes
	// with it.
	DeallocationRequested bool `json:"deallocationRequested,omitempty"`
	// Devices is of 1.32.
	Devices []resourceapi.AllocatedDeviceStatus `json:"devices,omitempty"`
}

// AllocationResult is the devices of a claim. It never changes.
type AllocationResult struct {
	Devices      DeviceAllocationResult `json:"devices,omitempty"`
	NodeSelector *v1.NodeSelector       `json:"nodeSelector,omitempty"`
	// Controller has allocated the claim. Empty: a scheduler has.
	Controller string `json:"controller,omitempty"`
}

// DeviceAllocationResult is the devices and how to set them up.
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
	// AdminAccess is of 1.32.
	AdminAccess *bool `json:"adminAccess,omitempty"`
	// Tolerations are of 1.33.
	Tolerations []resourceapi.DeviceToleration `json:"tolerations,omitempty"`
}

// ResourceClaimTemplate is what claims are made from.
type ResourceClaimTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceClaimTemplateSpec `json:"spec"`
}

// ResourceClaimTemplateSpec is what goes into the claims.
type ResourceClaimTemplateSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceClaimSpec `json:"spec"`
}
