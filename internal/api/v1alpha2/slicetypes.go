package v1alpha2

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceSlice has devices of one driver. A node may have several.
type ResourceSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// NodeName is the node that has the devices. No scheduler ever allocated from slices without it.
	NodeName       string                   `json:"nodeName,omitempty"`
	DriverName     string                   `json:"driverName"`
	NamedResources *NamedResourcesResources `json:"namedResources,omitempty"`
}

// NamedResourcesResources has devices that are identified by name.
type NamedResourcesResources struct {
	Instances []NamedResourcesInstance `json:"instances"`
}

// NamedResourcesInstance is a device.
type NamedResourcesInstance struct {
	Name       string                    `json:"name"`
	Attributes []NamedResourcesAttribute `json:"attributes,omitempty"`
}

// NamedResourcesAttribute has exactly one value. Its name is unique in a device, whatever the kind of the value.
type NamedResourcesAttribute struct {
	Name string `json:"name"`

	QuantityValue    *resource.Quantity         `json:"quantity,omitempty"`
	BoolValue        *bool                      `json:"bool,omitempty"`
	IntValue         *int64                     `json:"int,omitempty"`
	IntSliceValue    *NamedResourcesIntSlice    `json:"intSlice,omitempty"`
	StringValue      *string                    `json:"string,omitempty"`
	StringSliceValue *NamedResourcesStringSlice `json:"stringSlice,omitempty"`
	// VersionValue is a semantic version (semver.org 2.0.0).
	VersionValue *string `json:"version,omitempty"`
}

// NamedResourcesIntSlice is a list of numbers.
type NamedResourcesIntSlice struct {
	Ints []int64 `json:"ints"`
}

// NamedResourcesStringSlice is a list of texts.
type NamedResourcesStringSlice struct {
	Strings []string `json:"strings"`
}
