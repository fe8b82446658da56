package apiversions

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/apiversions/v1alpha3"
)

var (
	alpha3Scheme     = runtime.NewScheme()
	alpha3Parameters = runtime.NewParameterCodec(alpha3Scheme)
)

func init() {
	utilruntime.Must(v1alpha3.AddToScheme(alpha3Scheme))
}

// alpha3 makes backends for v1alpha3.
type alpha3 struct {
	served *Served
	// client is nil for client sets that have no connection (fakes). There is nothing in
	// that version then.
	client rest.Interface
}

func newAlpha3(client kubernetes.Interface, served *Served) alpha3 {
	connected, err := newOlderClient(client, v1alpha3.GroupVersion, alpha3Scheme)
	if err != nil {
		klog.Background().V(4).Info("Claims of version v1alpha3 cannot be used", "err", err)
		return alpha3{served: served}
	}
	return alpha3{served: served, client: connected}
}

func (a alpha3) claims(namespace string) backend[resourceapi.ResourceClaim, resourceapi.ResourceClaimList] {
	if a.client == nil {
		return absent[resourceapi.ResourceClaim, resourceapi.ResourceClaimList]{a.served, claimResource}
	}
	return newConverted[resourceapi.ResourceClaim, resourceapi.ResourceClaimList](claimResource, V1alpha3,
		gentype.NewClientWithList(claimResource, a.client, alpha3Parameters, namespace, newObject[v1alpha3.ResourceClaim], newObject[v1alpha3.ResourceClaimList]))
}

func (a alpha3) templates(namespace string) backend[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList] {
	if a.client == nil {
		return absent[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList]{a.served, templateResource}
	}
	return newConverted[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList](templateResource, V1alpha3,
		gentype.NewClientWithList(templateResource, a.client, alpha3Parameters, namespace, newObject[v1alpha3.ResourceClaimTemplate], newObject[v1alpha3.ResourceClaimTemplateList]))
}

func (a alpha3) classes() backend[resourceapi.DeviceClass, resourceapi.DeviceClassList] {
	if a.client == nil {
		return absent[resourceapi.DeviceClass, resourceapi.DeviceClassList]{a.served, classResource}
	}
	return newConverted[resourceapi.DeviceClass, resourceapi.DeviceClassList](classResource, V1alpha3,
		gentype.NewClientWithList(classResource, a.client, alpha3Parameters, "", newObject[v1alpha3.DeviceClass], newObject[v1alpha3.DeviceClassList]))
}

func (a alpha3) slices() backend[resourceapi.ResourceSlice, resourceapi.ResourceSliceList] {
	if a.client == nil {
		return absent[resourceapi.ResourceSlice, resourceapi.ResourceSliceList]{a.served, sliceResource}
	}
	return newConverted[resourceapi.ResourceSlice, resourceapi.ResourceSliceList](sliceResource, V1alpha3,
		gentype.NewClientWithList(sliceResource, a.client, alpha3Parameters, "", newObject[v1alpha3.ResourceSlice], newObject[v1alpha3.ResourceSliceList]))
}

func newObject[T any]() *T { return new(T) }
