package v1alpha2

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quartermaster-dra/quartermaster/internal/legacy/objects"
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
	ResourceClaimList         struct{ objects.List[ResourceClaim] }
	ResourceClaimTemplateList struct {
		objects.List[ResourceClaimTemplate]
	}
	ResourceClassList           struct{ objects.List[ResourceClass] }
	ResourceClassParametersList struct {
		objects.List[ResourceClassParameters]
	}
	ResourceClaimParametersList struct {
		objects.List[ResourceClaimParameters]
	}
	ResourceSliceList struct{ objects.List[ResourceSlice] }
)

// DeepCopyObject implements runtime.Object, like those of the other types. Clients and codecs require it, but reading
// and writing does not call it.
func (c *ResourceClaim) DeepCopyObject() runtime.Object { return objects.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimList) DeepCopyObject() runtime.Object { return objects.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (t *ResourceClaimTemplate) DeepCopyObject() runtime.Object { return objects.Copy(t) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimTemplateList) DeepCopyObject() runtime.Object { return objects.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (c *ResourceClass) DeepCopyObject() runtime.Object { return objects.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClassList) DeepCopyObject() runtime.Object { return objects.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (p *ResourceClassParameters) DeepCopyObject() runtime.Object { return objects.Copy(p) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClassParametersList) DeepCopyObject() runtime.Object { return objects.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (p *ResourceClaimParameters) DeepCopyObject() runtime.Object { return objects.Copy(p) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceClaimParametersList) DeepCopyObject() runtime.Object { return objects.Copy(l) }

// DeepCopyObject implements runtime.Object.
func (s *ResourceSlice) DeepCopyObject() runtime.Object { return objects.Copy(s) }

// DeepCopyObject implements runtime.Object.
func (l *ResourceSliceList) DeepCopyObject() runtime.Object { return objects.Copy(l) }
