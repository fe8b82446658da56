package apiversions

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/apiversions/v1alpha2"
)

// alpha2ClassResource is what v1alpha2 has instead of device classes.
const alpha2ClassResource = "resourceclasses"

var (
	alpha2Scheme = runtime.NewScheme()
	alpha2Codec  = runtime.NewParameterCodec(alpha2Scheme)
)

func init() {
	utilruntime.Must(v1alpha2.AddToScheme(alpha2Scheme))
}

// alpha2 makes backends for v1alpha2.
type alpha2 struct {
	served *Served
	// client is nil for client sets that have no connection (fakes). There is nothing in
	// that version then.
	client rest.Interface
}

func newAlpha2(client kubernetes.Interface, served *Served) alpha2 {
	connected, err := newOlderClient(client, v1alpha2.GroupVersion, alpha2Scheme)
	if err != nil {
		klog.Background().V(4).Info("Claims of version v1alpha2 cannot be used", "err", err)
		return alpha2{served: served}
	}
	return alpha2{served: served, client: connected}
}

func (a alpha2) claims(namespace string) backend[resourceapi.ResourceClaim, resourceapi.ResourceClaimList] {
	if a.client == nil {
		return absent[resourceapi.ResourceClaim, resourceapi.ResourceClaimList]{a.served, claimResource}
	}
	return newConverted[resourceapi.ResourceClaim, resourceapi.ResourceClaimList](claimResource, V1alpha2,
		clientOf[v1alpha2.ResourceClaim, v1alpha2.ResourceClaimList](a, claimResource, namespace))
}

func (a alpha2) templates(namespace string) backend[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList] {
	if a.client == nil {
		return absent[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList]{a.served, templateResource}
	}
	return newConverted[resourceapi.ResourceClaimTemplate, resourceapi.ResourceClaimTemplateList](templateResource, V1alpha2,
		clientOf[v1alpha2.ResourceClaimTemplate, v1alpha2.ResourceClaimTemplateList](a, templateResource, namespace))
}

func (a alpha2) classes() backend[resourceapi.DeviceClass, resourceapi.DeviceClassList] {
	if a.client == nil {
		return absent[resourceapi.DeviceClass, resourceapi.DeviceClassList]{a.served, classResource}
	}
	return newConverted[resourceapi.DeviceClass, resourceapi.DeviceClassList](classResource, V1alpha2,
		clientOf[v1alpha2.ResourceClass, v1alpha2.ResourceClassList](a, alpha2ClassResource, ""))
}

func (a alpha2) slices() backend[resourceapi.ResourceSlice, resourceapi.ResourceSliceList] {
	if a.client == nil {
		return absent[resourceapi.ResourceSlice, resourceapi.ResourceSliceList]{a.served, sliceResource}
	}
	return newConverted[resourceapi.ResourceSlice, resourceapi.ResourceSliceList](sliceResource, V1alpha2,
		clientOf[v1alpha2.ResourceSlice, v1alpha2.ResourceSliceList](a, sliceResource, ""))
}

// clientOf returns a client for objects of type T with lists of type L.
func clientOf[T, L any, PT interface {
	*T
	runtime.Object
	metav1.Object
}, PL interface {
	*L
	runtime.Object
}](a alpha2, resource, namespace string) *gentype.ClientWithList[PT, PL] {
	return gentype.NewClientWithList[PT, PL](resource, a.client, alpha2Codec, namespace, func() PT { return new(T) }, func() PL { return new(L) })
}
