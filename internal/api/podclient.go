package api

import (
	"net/url"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// CoreV1 implements kubernetes.Interface. While the server may be 1.30 or older, it returns a client that supports
// the pods' references to claims there. That client works with any server, so an informer that starts before
// discovery succeeds misses nothing: informers do not read known pods again.
func (c *clientset) CoreV1() coreclient.CoreV1Interface {
	if c.oldPods == nil || !c.resources.served.podsMayBeOld() {
		return c.Interface.CoreV1()
	}
	return coreWithOldPods{c.Interface.CoreV1(), c.oldPods}
}

// coreWithOldPods is the client of the core API with another client for pods.
type coreWithOldPods struct {
	coreclient.CoreV1Interface
	pods coreclient.PodsGetter
}

// Pods implements coreclient.PodsGetter.
func (c coreWithOldPods) Pods(namespace string) coreclient.PodInterface {
	return c.pods.Pods(namespace)
}

// newOldPods returns a client for pods of 1.30 and older on an ordinary client of the core API; they share
// connections and rate limit. It returns nil if the ordinary client is a fake.
func newOldPods(core coreclient.CoreV1Interface, server discovery.ServerVersionInterface, served *Served) coreclient.PodsGetter {
	ordinary, ok := core.RESTClient().(*rest.RESTClient)
	if !ok || ordinary == nil {
		return nil
	}
	content := rest.ClientContentConfig{
		AcceptContentTypes: runtime.ContentTypeJSON,
		ContentType:        runtime.ContentTypeJSON,
		GroupVersion:       v1.SchemeGroupVersion,
		Negotiator: runtime.NewClientNegotiator(podSources{
			NegotiatedSerializer: clientscheme.Codecs.WithoutConversion(),
			server:               &oldServer{asked: server, served: served},
		}, v1.SchemeGroupVersion),
	}
	// The URL of a request without a resource is that of the server, with the path of the API group.
	base := ordinary.Get().URL()
	base = &url.URL{Scheme: base.Scheme, Host: base.Host, User: base.User, Path: strings.TrimSuffix(base.Path, "/") + "/"}
	client, err := rest.NewRESTClient(base, "", content, ordinary.GetRateLimiter(), ordinary.Client)
	if err != nil {
		return nil // This cannot fail with the options above.
	}
	return coreclient.New(client)
}

// oldServer is a server that may be older than 1.31. It is safe for concurrent use.
type oldServer struct {
	asked  discovery.ServerVersionInterface
	served *Served

	mutex sync.Mutex
	// known is set once the server has answered, unrecorded if it is older than 1.28.
	known, unrecorded bool
}

// isOld reports whether the server is certainly 1.30 or older. Otherwise it may be any version, and gets both forms: it
// drops unknown fields.
func (s *oldServer) isOld() bool { return s.served.Version(claimResource) == V1alpha2 }

// leavesUnrecorded reports whether the server does not record the names of generated claims in pods
// (status.resourceClaimStatuses, since 1.28): such a name consists of the names of the pod and of its reference. It
// asks on demand, and returns false until the server's version is known.
func (s *oldServer) leavesUnrecorded() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.known {
		return s.unrecorded
	}
	info, err := s.asked.ServerVersion()
	if err != nil {
		return false
	}
	found, err := version.ParseGeneric(info.GitVersion)
	s.known, s.unrecorded = true, err == nil && found.LessThan(version.MajorMinor(1, 28))
	return s.unrecorded
}
