package v1alpha3

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceClass is a class of devices that claims can request.
type DeviceClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DeviceClassSpec `json:"spec"`
}

// DeviceClassSpec selects the devices of the class and configures them.
type DeviceClassSpec struct {
	Selectors []resourceapi.DeviceSelector           `json:"selectors,omitempty"`
	Config    []resourceapi.DeviceClassConfiguration `json:"config,omitempty"`
	// SuitableNodes restricts claims that a controller allocates. It exists only in 1.31.
	SuitableNodes *v1.NodeSelector `json:"suitableNodes,omitempty"`
}

// ResourceSlice has some of the devices of a pool.
type ResourceSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ResourceSliceSpec `json:"spec"`
}

// ResourceSliceSpec has devices and the nodes that can use them: one, some or all.
type ResourceSliceSpec struct {
	Driver       string                   `json:"driver"`
	Pool         resourceapi.ResourcePool `json:"pool"`
	NodeName     string                   `json:"nodeName,omitempty"`
	NodeSelector *v1.NodeSelector         `json:"nodeSelector,omitempty"`
	AllNodes     bool                     `json:"allNodes,omitempty"`
	Devices      []Device                 `json:"devices"`
	// Since 1.33, like those of BasicDevice: partitionable devices (KEP-4815).
	PerDeviceNodeSelection *bool                    `json:"perDeviceNodeSelection,omitempty"`
	SharedCounters         []resourceapi.CounterSet `json:"sharedCounters,omitempty"`
}

// Device is one device. Basic is the only type, and the API server requires it.
type Device struct {
	Name  string       `json:"name"`
	Basic *BasicDevice `json:"basic,omitempty"`
}

// BasicDevice has the published properties of a device.
type BasicDevice struct {
	Attributes map[resourceapi.QualifiedName]DeviceAttribute   `json:"attributes,omitempty"`
	Capacity   map[resourceapi.QualifiedName]resource.Quantity `json:"capacity,omitempty"`
	// ConsumesCounters is the device's consumption of SharedCounters. NodeName, NodeSelector and AllNodes are set
	// here if PerDeviceNodeSelection is true. Taints belong to KEP-5055.
	ConsumesCounters []resourceapi.DeviceCounterConsumption `json:"consumesCounters,omitempty"`
	NodeName         *string                                `json:"nodeName,omitempty"`
	NodeSelector     *v1.NodeSelector                       `json:"nodeSelector,omitempty"`
	AllNodes         *bool                                  `json:"allNodes,omitempty"`
	Taints           []resourceapi.DeviceTaint              `json:"taints,omitempty"`
}

// DeviceAttribute is a value of one of several types.
type DeviceAttribute struct {
	IntValue     *int64  `json:"int,omitempty"`
	BoolValue    *bool   `json:"bool,omitempty"`
	StringValue  *string `json:"string,omitempty"`
	VersionValue *string `json:"version,omitempty"`
}
