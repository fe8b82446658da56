package whatif

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects holds the objects of a Snapshot. They are shared and never changed.
type Objects struct {
	Nodes      []*v1.Node                           `json:"nodes,omitempty"`
	Slices     []*resourceapi.ResourceSlice         `json:"slices,omitempty"`
	Claims     []*resourceapi.ResourceClaim         `json:"claims,omitempty"`
	Templates  []*resourceapi.ResourceClaimTemplate `json:"templates,omitempty"`
	Classes    []*resourceapi.DeviceClass           `json:"classes,omitempty"`
	TaintRules []*resourceapi.DeviceTaintRule       `json:"taintRules,omitempty"`
	Pods       []*v1.Pod                            `json:"pods,omitempty"`

	// Missing lists the kinds of objects that could not be read. Questions that depend on them
	// cannot be answered.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing describes objects of one kind that could not be read.
type Missing struct {
	// Resource is the plural name, as in "resourceslices.resource.k8s.io".
	Resource string `json:"resource"`
	// Why describes the problem, including any permission that is missing.
	Why string `json:"why"`
	// Forbidden is set if a permission is missing.
	Forbidden bool `json:"forbidden,omitempty"`
	// Namespace is the only namespace with known objects, "" if none are known.
	Namespace string `json:"namespace,omitempty"`
}

// Key returns namespace/name, or the name if the object has no namespace.
func Key(object metav1.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}
