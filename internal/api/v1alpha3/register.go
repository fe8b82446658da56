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
func AddToScheme(scheme *runtime.Scheme) {
	v1alpha.Register[ResourceClaim](scheme, GroupVersion)
	v1alpha.Register[ResourceClaimTemplate](scheme, GroupVersion)
	v1alpha.Register[DeviceClass](scheme, GroupVersion)
	v1alpha.Register[ResourceSlice](scheme, GroupVersion)
	v1alpha.Register[DeviceTaintRule](scheme, GroupVersion)
	metav1.AddToGroupVersion(scheme, GroupVersion)
}

// DeepCopyObject implements runtime.Object, like those of the other types. Clients and codecs require it, but reading
// and writing does not call it.
func (c *ResourceClaim) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (t *ResourceClaimTemplate) DeepCopyObject() runtime.Object { return v1alpha.Copy(t) }

// DeepCopyObject implements runtime.Object.
func (c *DeviceClass) DeepCopyObject() runtime.Object { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (s *ResourceSlice) DeepCopyObject() runtime.Object { return v1alpha.Copy(s) }

// DeepCopyObject implements runtime.Object.
func (r *DeviceTaintRule) DeepCopyObject() runtime.Object { return v1alpha.Copy(r) }
