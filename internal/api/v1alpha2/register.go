package v1alpha2

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha"
)

// GroupVersion is resource.k8s.io/v1alpha2.
var GroupVersion = schema.GroupVersion{Group: resourceapi.GroupName, Version: "v1alpha2"}

// AddToScheme registers the types under their names in the API.
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

// Lists of the types.
type (
	ResourceClaimList         struct{ v1alpha.List[ResourceClaim] }
	ResourceClaimTemplateList struct {
		v1alpha.List[ResourceClaimTemplate]
	}
	ResourceClassList           struct{ v1alpha.List[ResourceClass] }
	ResourceClassParametersList struct {
		v1alpha.List[ResourceClassParameters]
	}
	ResourceClaimParametersList struct {
		v1alpha.List[ResourceClaimParameters]
	}
	ResourceSliceList struct{ v1alpha.List[ResourceSlice] }
)

// DeepCopyObject implements runtime.Object, like those of the other types. Clients and codecs require it, but reading
// and writing does not call it.
func (c *ResourceClaim) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimList) DeepCopyObject() runtime.Object { return v1alpha.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (t *ResourceClaimTemplate) DeepCopyObject() runtime.Object { return v1alpha.Copy(t) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimTemplateList) DeepCopyObject() runtime.Object { return v1alpha.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (c *ResourceClass) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClassList) DeepCopyObject() runtime.Object { return v1alpha.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (p *ResourceClassParameters) DeepCopyObject() runtime.Object { return v1alpha.Copy(p) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClassParametersList) DeepCopyObject() runtime.Object { return v1alpha.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (p *ResourceClaimParameters) DeepCopyObject() runtime.Object { return v1alpha.Copy(p) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimParametersList) DeepCopyObject() runtime.Object { return v1alpha.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (s *ResourceSlice) DeepCopyObject() runtime.Object { return v1alpha.Copy(s) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceSliceList) DeepCopyObject() runtime.Object { return v1alpha.Copy(l) }
