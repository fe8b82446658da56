package v1alpha3

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha"
)

// GroupVersion is resource.k8s.io/v1alpha3.
var GroupVersion = schema.GroupVersion{Group: resourceapi.GroupName, Version: "v1alpha3"}

// AddToScheme registers the types under their names in the API.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ResourceClaim{}, &ResourceClaimList{},
		&ResourceClaimTemplate{}, &ResourceClaimTemplateList{},
		&DeviceClass{}, &DeviceClassList{},
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
	DeviceClassList   struct{ v1alpha.List[DeviceClass] }
	ResourceSliceList struct{ v1alpha.List[ResourceSlice] }
)

// DeepCopyObject implements runtime.Object, like those of the other types. Clients and codecs require it, but reading
// and writing does not call it.
func (c *ResourceClaim) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (c *ResourceClaimList) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (t *ResourceClaimTemplate) DeepCopyObject() runtime.Object { return v1alpha.Copy(t) }

// DeepCopyObject implements runtime.Object.
func (t *ResourceClaimTemplateList) DeepCopyObject() runtime.Object { return v1alpha.Copy(t) }

// DeepCopyObject implements runtime.Object.
func (c *DeviceClass) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (c *DeviceClassList) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (s *ResourceSlice) DeepCopyObject() runtime.Object { return v1alpha.Copy(s) }

// DeepCopyObject implements runtime.Object.
func (s *ResourceSliceList) DeepCopyObject() runtime.Object { return v1alpha.Copy(s) }
