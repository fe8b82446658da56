package api

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha3"
)

// The types of the alpha versions. Each version has its own scheme, because the types have the same names.
var alpha2Scheme, alpha3Scheme = runtime.NewScheme(), runtime.NewScheme()

func init() {
	v1alpha2.AddToScheme(alpha2Scheme)
	v1alpha3.AddToScheme(alpha3Scheme)
	v1alpha.Register[PodSchedulingContext](alpha2Scheme, v1alpha2.GroupVersion)
	v1alpha.Register[PodSchedulingContext](alpha3Scheme, v1alpha3.GroupVersion)
}

// alpha is an alpha version on a server. client-go has no types for it.
type alpha struct {
	version    Version
	parameters runtime.ParameterCodec
	// client is nil for client sets without a connection (fakes). Then no objects exist in that version.
	client rest.Interface
}

func newAlpha2(client kubernetes.Interface) alpha { return newAlpha(client, V1alpha2, alpha2Scheme) }

func newAlpha3(client kubernetes.Interface) alpha { return newAlpha(client, V1alpha3, alpha3Scheme) }

func newAlpha(client kubernetes.Interface, version Version, types *runtime.Scheme) alpha {
	a := alpha{version: version, parameters: runtime.NewParameterCodec(types)}
	connected, err := newOtherClient(client, schema.GroupVersion{Group: resourceapi.GroupName, Version: string(version)}, types)
	if err != nil {
		klog.Background().V(4).Info("Claims of an alpha version cannot be used", "version", version, "err", err)
		return a
	}
	a.client = connected
	return a
}

// object constrains *O to be an API object.
type object[O any] interface {
	*O
	runtime.Object
	metav1.Object
}

// clientOf returns a client for a resource with objects of type O.
func clientOf[O any, PO object[O]](a alpha, resource, namespace string) *gentype.ClientWithList[PO, *v1alpha.List[O]] {
	return gentype.NewClientWithList[PO, *v1alpha.List[O]](nameIn(a.version, resource), a.client, a.parameters, namespace,
		func() PO { return new(O) }, func() *v1alpha.List[O] { return new(v1alpha.List[O]) })
}

// inAlpha returns the backend of a kind in an alpha version, with a client from clientOf.
func inAlpha[T, L, O, OL any](k kind[T, L], a alpha, client backend[O, OL]) backend[T, L] {
	if a.client == nil {
		return k.absent()
	}
	return older(k, a.version, client)
}
