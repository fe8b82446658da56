package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// server is an API server that has resource.k8s.io in some versions, which can be changed
// while it runs. It keeps objects as JSON, without knowing what they mean, so tests use
// objects that look the same in all versions.
type server struct {
	t    *testing.T
	http *httptest.Server

	mutex sync.Mutex
	// versions are those it has, with their resources.
	versions map[Version][]string
	// down makes it answer 503 to everything.
	down bool
	// silent is a version whose discovery is refused.
	silent   Version
	objects  map[string]map[string]map[string]any // by resource and name
	revision int
	watchers []chan string
	requests []string
}

var allResources = []string{claimResource, templateResource, classResource, sliceResource, ruleResource}

func startServer(t *testing.T, versions map[Version][]string) *server {
	s := &server{t: t, versions: versions, objects: make(map[string]map[string]map[string]any), revision: 100}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	t.Cleanup(func() { s.upgrade(nil) }) // Ends watches.
	return s
}

// configOf returns a configuration with a transport of its own: a server that is closed closes idle connections of
// http.DefaultTransport, also those of tests that run beside it.
func configOf(server *httptest.Server, path, contentType string) *rest.Config {
	return &rest.Config{Host: server.URL + path, Transport: server.Client().Transport, ContentConfig: rest.ContentConfig{ContentType: contentType}}
}

// upgrade replaces the server by one with other versions: watches end.
func (s *server) upgrade(versions map[Version][]string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.versions = versions
	for _, w := range s.watchers {
		close(w)
	}
	s.watchers = nil
}

func (s *server) setDown(down bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.down = down
}

func (s *server) setSilent(version Version) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.silent = version
}

// took returns the requests since the last call, without those of discovery.
func (s *server) took() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	result := slices.DeleteFunc(s.requests, func(r string) bool { return strings.HasPrefix(r, "DISCOVER") })
	s.requests = nil
	return result
}

// add stores an object like a write of another client.
func (s *server) add(resource, name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.store(resource, map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}})
}

// addAs is add for an object that matters.
func (s *server) addAs(resource string, object map[string]any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.store(resource, object)
}

// stored returns an object as it was sent.
func (s *server) stored(resource, name string) map[string]any {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.objects[resource][name]
}

func (s *server) store(resource string, object map[string]any) {
	s.revision++
	meta := object["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.Itoa(s.revision)
	if s.objects[resource] == nil {
		s.objects[resource] = make(map[string]map[string]any)
	}
	s.objects[resource][meta["name"].(string)] = object
	for _, w := range s.watchers {
		select {
		case w <- resource + "/" + meta["name"].(string):
		default:
		}
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/resource.k8s.io/"), "/")
	version := Version(path[0])
	s.mutex.Lock()
	down, resources, served := s.down, s.versions[version], false
	silent := version == s.silent && len(path) == 1
	if len(path) > 3 && path[1] == "namespaces" {
		path = append(path[:1], path[3:]...)
	}
	if len(path) == 1 {
		s.requests = append(s.requests, "DISCOVER "+path[0])
		served = len(resources) > 0
	} else {
		verb := r.Method
		if r.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		s.requests = append(s.requests, verb+" "+strings.Join(path, "/"))
		served = slices.Contains(resources, path[1])
	}
	s.mutex.Unlock()
	switch {
	case down:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case silent:
		http.Error(w, "not for you", http.StatusForbidden)
	case !served && version == V1beta2: // As a proxy would answer.
		http.Error(w, "404 page not found", http.StatusNotFound)
	case !served:
		s.answer(w, http.StatusNotFound, notFound("the server could not find the requested resource", &metav1.StatusDetails{}))
	case len(path) == 1:
		list := metav1.APIResourceList{GroupVersion: version.groupVersion()}
		for _, name := range resources {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		s.answer(w, http.StatusOK, list)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r, version, path[1])
	case len(path) == 2:
		s.list(w, version, path[1])
	default:
		s.object(w, r, version, path)
	}
}

func (s *server) answer(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content)
}

// notFound is the status that kube-apiserver sends: with a name if it is about an object.
func notFound(message string, details *metav1.StatusDetails) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: message, Details: details,
	}
}

func kindOf(resource string) string {
	return map[string]string{claimResource: "ResourceClaim", templateResource: "ResourceClaimTemplate", classResource: "DeviceClass",
		sliceResource: "ResourceSlice", ruleResource: "DeviceTaintRule", contextResource: "PodSchedulingContext",
		alpha2ClassResource: "ResourceClass", classParametersResource: "ResourceClassParameters", claimParametersResource: "ResourceClaimParameters"}[resource]
}

// in returns an object as the server sends it.
func in(version Version, resource string, object map[string]any) map[string]any {
	result := map[string]any{"apiVersion": version.groupVersion(), "kind": kindOf(resource)}
	for key, value := range object {
		if key != "apiVersion" && key != "kind" {
			result[key] = value
		}
	}
	return result
}

func (s *server) list(w http.ResponseWriter, version Version, resource string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	items := []any{}
	for _, object := range s.objects[resource] {
		items = append(items, in(version, resource, object))
	}
	s.answer(w, http.StatusOK, map[string]any{
		"apiVersion": version.groupVersion(), "kind": kindOf(resource) + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision)}, "items": items,
	})
}

func (s *server) object(w http.ResponseWriter, r *http.Request, version Version, path []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	resource, name := path[1], path[2]
	if _, found := s.objects[resource][name]; !found {
		s.answer(w, http.StatusNotFound, notFound(fmt.Sprintf("%s %q not found", resource, name),
			&metav1.StatusDetails{Group: "resource.k8s.io", Kind: resource, Name: name}))
		return
	}
	if r.Method == http.MethodPut {
		var object map[string]any
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			s.t.Error(err)
		}
		if sent := object["apiVersion"]; sent != version.groupVersion() {
			s.t.Errorf("%s %s got an object of version %v", r.Method, r.URL.Path, sent)
		}
		s.store(resource, object)
	}
	s.answer(w, http.StatusOK, in(version, resource, s.objects[resource][name]))
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, version Version, resource string) {
	changes := make(chan string, 100)
	s.mutex.Lock()
	s.watchers = append(s.watchers, changes)
	s.mutex.Unlock()
	w.Header().Set("Content-Type", "application/json")
	send := func(kind string, object map[string]any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": in(version, resource, object)})
		w.(http.Flusher).Flush()
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		s.sendInitial(resource, send)
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case change, open := <-changes:
			if !open {
				return
			}
			name, found := strings.CutPrefix(change, resource+"/")
			if !found {
				continue
			}
			s.mutex.Lock()
			object := s.objects[resource][name]
			s.mutex.Unlock()
			send("ADDED", object)
		}
	}
}

// sendInitial sends what is there, and the bookmark that ends it (KEP-3157).
func (s *server) sendInitial(resource string, send func(kind string, object map[string]any)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, object := range s.objects[resource] {
		send("ADDED", object)
	}
	send("BOOKMARK", map[string]any{"metadata": map[string]any{
		"resourceVersion": strconv.Itoa(s.revision),
		"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

// clockStart is the initial time of the clocks of connect.
var clockStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// connect returns clients of the server like Connect, with a clock that stands still.
func (s *server) connect() (*clientset, *clocktesting.FakeClock) {
	config := configOf(s.http, "", "application/json")
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	require.NoError(s.t, err)
	clock := clocktesting.NewFakeClock(clockStart)
	return newClientset(client, newServed(client.Discovery(), clock)), clock
}
