package v1alpha2

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Finalizer is on claims that a scheduler has allocated (structured parameters). It is
// how the controllers of the server's release tell them from those of the classic mode.
const Finalizer = "dra.k8s.io/delete-protection"

const (
	// MaxConsumers is how many entries status.reservedFor can have if the allocation can
	// be shared.
	MaxConsumers = 32
	// MaxHandles is how many entries status.allocation.resourceHandles can have: one for
	// each driver.
	MaxHandles = 32
)

// ResourceClaim asks for devices, through its class and parameters.
type ResourceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceClaimSpec   `json:"spec"`
	Status ResourceClaimStatus `json:"status,omitzero"`
}

// ResourceClaimSpec cannot be changed.
type ResourceClaimSpec struct {
	ResourceClassName string               `json:"resourceClassName"`
	ParametersRef     *ParametersReference `json:"parametersRef,omitempty"`
	// AllocationMode is of no concern if the scheduler allocates.
	AllocationMode AllocationMode `json:"allocationMode,omitempty"`
}

// AllocationMode says when a controller of the driver is to allocate a claim.
type AllocationMode string

// The server sets WaitForFirstConsumer if nothing is given.
const (
	WaitForFirstConsumer AllocationMode = "WaitForFirstConsumer"
	Immediate            AllocationMode = "Immediate"
)

// ParametersReference names an object with parameters: one of this API group, or one of
// the vendor's own API from which a controller generates one of this API group. Namespace is
// for classes only; parameters of a claim are in the namespace of the claim.
type ParametersReference struct {
	APIGroup  string `json:"apiGroup,omitempty"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// ResourceClaimStatus is what became of a claim.
type ResourceClaimStatus struct {
	// DriverName is that of the class when the claim was allocated. It has to be set
	// together with Allocation.
	DriverName  string                                       `json:"driverName,omitempty"`
	Allocation  *AllocationResult                            `json:"allocation,omitempty"`
	ReservedFor []resourceapi.ResourceClaimConsumerReference `json:"reservedFor,omitempty"`
	// DeallocationRequested asks the controller that allocated the claim to take that
	// back. No consumer can be added while it is set.
	DeallocationRequested bool `json:"deallocationRequested,omitempty"`
}

// AllocationResult cannot be changed, only removed.
type AllocationResult struct {
	// ResourceHandles has one entry for each driver, at most MaxHandles.
	ResourceHandles []ResourceHandle `json:"resourceHandles,omitempty"`
	// AvailableOnNodes are the nodes where it can be used; nil stands for all.
	AvailableOnNodes *v1.NodeSelector `json:"availableOnNodes,omitempty"`
	// Shareable permits up to MaxConsumers consumers, otherwise there is one at most.
	Shareable bool `json:"shareable,omitempty"`
}

// ResourceHandle is what one driver needs to know. Data is from a controller of that
// driver, StructuredData from a scheduler; at most one of them is set.
type ResourceHandle struct {
	DriverName     string                    `json:"driverName,omitempty"`
	Data           string                    `json:"data,omitempty"`
	StructuredData *StructuredResourceHandle `json:"structuredData,omitempty"`
}

// StructuredResourceHandle lists the devices of a driver, with the parameters of the
// vendor as they were at the time of the allocation.
type StructuredResourceHandle struct {
	VendorClassParameters runtime.RawExtension `json:"vendorClassParameters,omitzero"`
	VendorClaimParameters runtime.RawExtension `json:"vendorClaimParameters,omitzero"`
	// NodeName is the node of all results.
	NodeName string                   `json:"nodeName,omitempty"`
	Results  []DriverAllocationResult `json:"results"`
}

// DriverAllocationResult is the device for one request.
type DriverAllocationResult struct {
	VendorRequestParameters runtime.RawExtension            `json:"vendorRequestParameters,omitzero"`
	NamedResources          *NamedResourcesAllocationResult `json:"namedResources,omitempty"`
}

// NamedResourcesAllocationResult names a device of the driver on the node.
type NamedResourcesAllocationResult struct {
	Name string `json:"name"`
}

// ResourceClaimTemplate is what the controller of the server's release makes claims for
// pods from.
type ResourceClaimTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceClaimTemplateSpec `json:"spec"`
}

// ResourceClaimTemplateSpec has what is copied into each claim.
type ResourceClaimTemplateSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceClaimSpec `json:"spec"`
}

// ResourceClass says who allocates claims, and with which parameters of the administrator.
type ResourceClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	DriverName    string               `json:"driverName"`
	ParametersRef *ParametersReference `json:"parametersRef,omitempty"`
	// SuitableNodes are the only nodes for which claims of the class are allocated; nil
	// stands for all.
	SuitableNodes *v1.NodeSelector `json:"suitableNodes,omitempty"`
	// StructuredParameters makes schedulers allocate the claims; otherwise, and before
	// 1.30, a controller of the driver does.
	StructuredParameters *bool `json:"structuredParameters,omitempty"`
}

// IsStructured reports whether schedulers allocate the claims of the class.
func (c *ResourceClass) IsStructured() bool {
	return c.StructuredParameters != nil && *c.StructuredParameters
}
