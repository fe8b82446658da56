package rbac

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// front stands between the scheduler and the API server. It forwards everything
// as it is, credentials included, except that
//   - it offers no streaming lists (gate WatchList), as API servers did before 1.32
//     and may do again: a reflector that has to start anew then lists and watches;
//   - it makes reflectors start anew on demand;
//   - it answers single requests with a conflict on demand;
//   - it notes which rights the API server found missing.
type front struct {
	server   *httptest.Server
	upstream *httputil.ReverseProxy
	paths    request.RequestInfoFactory

	mutex sync.Mutex
	// watches are the cancel functions of the running watches, by resource.
	watches map[string]map[*http.Request]context.CancelFunc
	// outdated is how many of the next watches of a resource get the answer that
	// their version is too old.
	outdated map[string]int
	// conflicts holds the writes that get a conflict once, by right, each with the beginning of the object's name. Pods of
	// earlier probes are still tried, and may write at the same moment.
	conflicts map[string]string
	refused   map[string]bool
}

// refusals find what the API server says is missing: in the answer of the
// authoriser, and in that of the strategy of claims, which asks the authoriser for
// resourceclaims/binding by itself.
var (
	refusal        = regexp.MustCompile(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"`)
	bindingRefusal = regexp.MustCompile(`requires resource="(resourceclaims/binding)", verb="(\w+)" permission`)
)

func startFront(t *testing.T, server *rest.Config) *front {
	t.Helper()
	target, err := url.Parse(server.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(server))
	require.NoError(t, err)
	f := &front{
		paths:     request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		watches:   map[string]map[*http.Request]context.CancelFunc{},
		outdated:  map[string]int{},
		conflicts: map[string]string{},
		refused:   map[string]bool{},
	}
	f.upstream = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // Watch events must not wait for more of them.
		ModifyResponse: f.noteRefusal,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	// With TLS, because clients tell their token to nobody without it.
	f.server = httptest.NewTLSServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.server.Close)
	t.Cleanup(f.server.CloseClientConnections)
	return f
}

// certificate is what clients have to trust, as PEM.
func (f *front) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

func (f *front) serve(w http.ResponseWriter, r *http.Request) {
	info, err := f.paths.NewRequestInfo(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resource := groupResource(info.APIGroup, info.Resource)
	if answer := f.ownAnswer(r, info, resource); answer != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(answer.ErrStatus.Code))
		_ = json.NewEncoder(w).Encode(answer.ErrStatus)
		return
	}
	if info.Verb == "watch" {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		defer f.register(resource, r, cancel)()
	}
	f.upstream.ServeHTTP(w, r)
}

// ownAnswer is what the front answers without asking the API server, or nil.
func (f *front) ownAnswer(r *http.Request, info *request.RequestInfo, resource string) *apierrors.StatusError {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	switch {
	case info.Verb == "watch" && r.URL.Query().Get("sendInitialEvents") == "true":
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", nil)
	case info.Verb == "watch" && f.outdated[resource] > 0:
		f.outdated[resource]--
		return apierrors.NewResourceExpired("the front wants the reflector to start anew")
	}
	whole := info.Resource
	if info.Subresource != "" {
		whole += "/" + info.Subresource
	}
	right := info.Verb + " " + groupResource(info.APIGroup, whole)
	if name, found := f.conflicts[right]; found && strings.HasPrefix(info.Name, name) {
		delete(f.conflicts, right)
		return apierrors.NewConflict(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name, nil)
	}
	return nil
}

func (f *front) register(resource string, r *http.Request, cancel context.CancelFunc) (forget func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.watches[resource] == nil {
		f.watches[resource] = map[*http.Request]context.CancelFunc{}
	}
	f.watches[resource][r] = cancel
	return func() {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		delete(f.watches[resource], r)
	}
}

// startAnew ends all watches of a resource and makes their reflectors list. It
// returns how many there were.
func (f *front) startAnew(resource string) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	n := len(f.watches[resource])
	f.outdated[resource] += n
	for _, cancel := range f.watches[resource] {
		cancel()
	}
	return n
}

// watching is how many watches of a resource are running.
func (f *front) watching(resource string) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return len(f.watches[resource])
}

// conflict answers the next request that needs a right, for an object whose name begins like that, with a conflict.
func (f *front) conflict(right, name string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.conflicts[right] = name
}

// noteRefusal looks for a missing right in an answer that refuses something.
func (f *front) noteRefusal(response *http.Response) error {
	if response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnprocessableEntity {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	// The message is the same in JSON, but for its quotes, and in protobuf.
	text := strings.ReplaceAll(string(body), `\"`, `"`)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if match := refusal.FindStringSubmatch(text); match != nil {
		f.refused[match[1]+" "+groupResource(match[3], match[2])] = true
	}
	if match := bindingRefusal.FindStringSubmatch(text); match != nil {
		f.refused[match[2]+" "+groupResource("resource.k8s.io", match[1])] = true
	}
	return nil
}

// takeRefusals returns which rights were found missing since the last call.
func (f *front) takeRefusals() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	refused := slices.Sorted(maps.Keys(f.refused))
	f.refused = map[string]bool{}
	return refused
}

func (f *front) hasRefused(right string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.refused[right]
}

// groupResource writes a resource as "pods/binding" or "leases.coordination.k8s.io".
func groupResource(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}
