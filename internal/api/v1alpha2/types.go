package v1alpha2

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Finalizer is the finalizer of claims that a scheduler has allocated (structured parameters). The controllers of
// that release distinguish them by it from claims of the classic mode.
const Finalizer = "dra.k8s.io/delete-protection"

const (
	// MaxConsumers is the limit of entries in status.reservedFor if the allocation can be shared.
	MaxConsumers = 32
	// MaxHandles is the limit of entries in status.allocation.resourceHandles: one for each driver.
	MaxHandles = 32
)

// ResourceClaim asks for devices, through its class and parameters.
type ResourceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceClaimSpec   `json:"spec"`
	Status ResourceClaimStatus `json:"status,omitzero"`
}

// ResourceClaimSpec is immutable.
type ResourceClaimSpec struct {
	ResourceClassName string               `json:"resourceClassName"`
	ParametersRef     *ParametersReference `json:"parametersRef,omitempty"`
	// AllocationMode has no effect if the scheduler allocates.
	AllocationMode AllocationMode `json:"allocationMode,omitempty"`
}

// AllocationMode says when a controller of the driver allocates a claim.
type AllocationMode string

// WaitForFirstConsumer is the default.
const (
	WaitForFirstConsumer AllocationMode = "WaitForFirstConsumer"
	Immediate            AllocationMode = "Immediate"
)

// ParametersReference names an object with parameters: one of this API group, or a vendor's object from which a
// controller generates one of this API group. Namespace is for classes only; the parameters of a claim are in its
// namespace.
type ParametersReference struct {
	APIGroup  string `json:"apiGroup,omitempty"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// ResourceClaimStatus is the status of a claim.
type ResourceClaimStatus struct {
	// DriverName is the class's driver at the time of the allocation. It must be set together with Allocation.
	DriverName  string                                       `json:"driverName,omitempty"`
	Allocation  *AllocationResult                            `json:"allocation,omitempty"`
	ReservedFor []resourceapi.ResourceClaimConsumerReference `json:"reservedFor,omitempty"`
	// DeallocationRequested asks the controller that allocated the claim to deallocate it. While it is set, no
	// consumer can be added.
	DeallocationRequested bool `json:"deallocationRequested,omitempty"`
}

// AllocationResult is immutable, but can be removed.
type AllocationResult struct {
	// ResourceHandles has one entry for each driver, at most MaxHandles.
	ResourceHandles []ResourceHandle `json:"resourceHandles,omitempty"`
	// AvailableOnNodes are the nodes that can use the devices; nil means all nodes.
	AvailableOnNodes *v1.NodeSelector `json:"availableOnNodes,omitempty"`
	// Shareable permits up to MaxConsumers consumers; otherwise the limit is one.
	Shareable bool `json:"shareable,omitempty"`
}

// ResourceHandle has the data for one driver. Data comes from a controller of that driver, StructuredData from a
// scheduler; at most one of them is set.
type ResourceHandle struct {
	DriverName     string                    `json:"driverName,omitempty"`
	Data           string                    `json:"data,omitempty"`
	StructuredData *StructuredResourceHandle `json:"structuredData,omitempty"`
}

// StructuredResourceHandle lists the devices of a driver, with the vendor's parameters at the time of the allocation.
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

// ResourceClaimTemplate is a template for claims of pods.
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

// ResourceClass determines the component that allocates claims, and the administrator's parameters.
type ResourceClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	DriverName    string               `json:"driverName"`
	ParametersRef *ParametersReference `json:"parametersRef,omitempty"`
	// SuitableNodes are the nodes for which claims of the class can be allocated; nil means all nodes.
	SuitableNodes *v1.NodeSelector `json:"suitableNodes,omitempty"`
	// StructuredParameters makes schedulers allocate the claims; otherwise, and before 1.30, a controller of the
	// driver does.
	StructuredParameters *bool `json:"structuredParameters,omitempty"`
}

// IsStructured reports whether schedulers allocate the claims of the class.
func (c *ResourceClass) IsStructured() bool {
	return c.StructuredParameters != nil && *c.StructuredParameters
}
