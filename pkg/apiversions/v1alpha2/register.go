package v1alpha2

import (
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is resource.k8s.io/v1alpha2.
var GroupVersion = schema.GroupVersion{Group: resourceapi.GroupName, Version: "v1alpha2"}

// AddToScheme makes the types known under their names in the API.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ResourceClaim{}, &ResourceClaimList{},
		&ResourceClaimTemplate{}, &ResourceClaimTemplateList{},
		&ResourceClass{}, &ResourceClassList{},
		&ResourceClassParameters{}, &ResourceClassParametersList{},
		&ResourceClaimParameters{}, &ResourceClaimParametersList{},
		&ResourceSlice{}, &ResourceSliceList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// list is what all lists consist of.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []T `json:"items"`
}

// Lists of the types.
type (
	ResourceClaimList           struct{ list[ResourceClaim] }
	ResourceClaimTemplateList   struct{ list[ResourceClaimTemplate] }
	ResourceClassList           struct{ list[ResourceClass] }
	ResourceClassParametersList struct{ list[ResourceClassParameters] }
	ResourceClaimParametersList struct{ list[ResourceClaimParameters] }
	ResourceSliceList           struct{ list[ResourceSlice] }
)

// DeepCopyObject implements runtime.Object, as do those of the other types. Clients and
// codecs have to have it, but reading and writing does not copy anything.
func (c *ResourceClaim) DeepCopyObject() runtime.Object { return copyOf(c) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimList) DeepCopyObject() runtime.Object { return copyOf(l) }

// DeepCopyObject implements runtime.Object.
func (t *ResourceClaimTemplate) DeepCopyObject() runtime.Object { return copyOf(t) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimTemplateList) DeepCopyObject() runtime.Object { return copyOf(l) }

// DeepCopyObject implements runtime.Object.
func (c *ResourceClass) DeepCopyObject() runtime.Object { return copyOf(c) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClassList) DeepCopyObject() runtime.Object { return copyOf(l) }

// DeepCopyObject implements runtime.Object.
func (p *ResourceClassParameters) DeepCopyObject() runtime.Object { return copyOf(p) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClassParametersList) DeepCopyObject() runtime.Object { return copyOf(l) }

// DeepCopyObject implements runtime.Object.
func (p *ResourceClaimParameters) DeepCopyObject() runtime.Object { return copyOf(p) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimParametersList) DeepCopyObject() runtime.Object { return copyOf(l) }

// DeepCopyObject implements runtime.Object.
func (s *ResourceSlice) DeepCopyObject() runtime.Object { return copyOf(s) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceSliceList) DeepCopyObject() runtime.Object { return copyOf(l) }

// copyOf copies by way of JSON, which all objects of the API survive.
func copyOf[T any](object *T) *T {
	raw, err := json.Marshal(object)
	result := new(T)
	if err == nil {
		err = json.Unmarshal(raw, result)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a %T: it cannot be written as JSON, so it is no object of the API: %v", object, err))
	}
	return result
}
