package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// newOtherClient returns a client for a version of an API group that client-go has no types for. The types must be
// in the scheme. The client uses JSON: only generated types support protobuf. It shares connections, credentials and
// the rate limit with the client set, so that a scheduler's --kube-api-qps covers all versions.
func newOtherClient(client kubernetes.Interface, group schema.GroupVersion, types *runtime.Scheme) (rest.Interface, error) {
	existing, ok := client.ResourceV1().RESTClient().(*rest.RESTClient)
	if !ok || existing == nil {
		return nil, fmt.Errorf("make a client for %s: the client set has no connection to an API server (%T); it has to be a real one", group, client.ResourceV1().RESTClient())
	}
	codecs := serializer.NewCodecFactory(types).WithoutConversion()
	return rest.NewRESTClient(existing.Get().AbsPath("/").URL(), "/apis/"+group.String(), rest.ClientContentConfig{
		ContentType:  runtime.ContentTypeJSON,
		GroupVersion: group,
		Negotiator:   runtime.NewClientNegotiator(codecs, group),
	}, existing.GetRateLimiter(), existing.Client)
}
