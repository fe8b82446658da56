package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceClaimParameters has the requests of a claim.
type ResourceClaimParameters struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// GeneratedFrom is the vendor's object that a controller generated these parameters from.
	GeneratedFrom *ParametersReference `json:"generatedFrom,omitempty"`
	// Shareable becomes status.allocation.shareable.
	Shareable bool `json:"shareable,omitempty"`
	// DriverRequests has each driver once. One node must satisfy all of them.
	DriverRequests []DriverRequests `json:"driverRequests,omitempty"`
}

// DriverRequests has the requests to one driver, each for one device.
type DriverRequests struct {
	DriverName       string               `json:"driverName,omitempty"`
	VendorParameters runtime.RawExtension `json:"vendorParameters,omitzero"`
	Requests         []ResourceRequest    `json:"requests,omitempty"`
}

// ResourceRequest asks for one device. NamedResources is the only model that ever existed.
type ResourceRequest struct {
	VendorParameters runtime.RawExtension   `json:"vendorParameters,omitzero"`
	NamedResources   *NamedResourcesRequest `json:"namedResources,omitempty"`
}

// NamedResourcesRequest has a CEL expression that the device must match.
type NamedResourcesRequest struct {
	Selector string `json:"selector"`
}

// ResourceClassParameters restricts the devices of a class and configures them.
type ResourceClassParameters struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// GeneratedFrom is the vendor's object that a controller generated these parameters from.
	GeneratedFrom *ParametersReference `json:"generatedFrom,omitempty"`
	// VendorParameters and Filters have each driver at most once.
	VendorParameters []VendorParameters `json:"vendorParameters,omitempty"`
	Filters          []ResourceFilter   `json:"filters,omitempty"`
}

// VendorParameters has opaque parameters for one driver.
type VendorParameters struct {
	DriverName string               `json:"driverName,omitempty"`
	Parameters runtime.RawExtension `json:"parameters,omitzero"`
}

// ResourceFilter restricts the devices of one driver.
type ResourceFilter struct {
	DriverName     string                `json:"driverName,omitempty"`
	NamedResources *NamedResourcesFilter `json:"namedResources,omitempty"`
}

// NamedResourcesFilter has a CEL expression that all devices must match.
type NamedResourcesFilter struct {
	Selector string `json:"selector"`
}
