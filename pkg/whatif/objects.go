package whatif

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects are what a Snapshot is made of. They are shared and never changed.
type Objects struct {
	Nodes      []*v1.Node                           `json:"nodes,omitempty"`
	Slices     []*resourceapi.ResourceSlice         `json:"slices,omitempty"`
	Claims     []*resourceapi.ResourceClaim         `json:"claims,omitempty"`
	Templates  []*resourceapi.ResourceClaimTemplate `json:"templates,omitempty"`
	Classes    []*resourceapi.DeviceClass           `json:"classes,omitempty"`
	TaintRules []*resourceapi.DeviceTaintRule       `json:"taintRules,omitempty"`
	Pods       []*v1.Pod                            `json:"pods,omitempty"`

	// Missing are the kinds of objects that could not be read. A world without them may be wrong: what
	// depends on them cannot be told.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing is a kind of objects that could not be read.
type Missing struct {
	// Resource is the plural name, as in "resourceslices.resource.k8s.io".
	Resource string `json:"resource"`
	// Why says what went wrong, and which right is needed if it is about rights.
	Why string `json:"why"`
	// Forbidden is set if it is about rights.
	Forbidden bool `json:"forbidden,omitempty"`
	// Namespace is the only one with known objects, "" if none are known.
	Namespace string `json:"namespace,omitempty"`
}

// Key is namespace/name, or the name of an object without namespace.
func Key(object metav1.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}
