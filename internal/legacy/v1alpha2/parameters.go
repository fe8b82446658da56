package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ResourceClaimParameters says what a claim asks for.
type ResourceClaimParameters struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// GeneratedFrom is the vendor's object that these parameters stand for.
	GeneratedFrom *ParametersReference `json:"generatedFrom,omitempty"`
	// Shareable becomes status.allocation.shareable.
	Shareable bool `json:"shareable,omitempty"`
	// DriverRequests has each driver once. All of them have to be met on one node.
	DriverRequests []DriverRequests `json:"driverRequests,omitempty"`
}

// DriverRequests is what is asked of one driver: one device for each of the requests.
type DriverRequests struct {
	DriverName       string               `json:"driverName,omitempty"`
	VendorParameters runtime.RawExtension `json:"vendorParameters,omitzero"`
	Requests         []ResourceRequest    `json:"requests,omitempty"`
}

// ResourceRequest asks for one device. NamedResources is the only model there ever was.
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

	// GeneratedFrom is the vendor's object that these parameters stand for.
	GeneratedFrom *ParametersReference `json:"generatedFrom,omitempty"`
	// VendorParameters has each driver at most once, and so has Filters.
	VendorParameters []VendorParameters `json:"vendorParameters,omitempty"`
	Filters          []ResourceFilter   `json:"filters,omitempty"`
}

// VendorParameters are for one driver and mean nothing to anybody else.
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
