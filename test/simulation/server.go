package simulation

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/guard"
)

// Server is an API server in memory. It implements what a scheduler needs.
type Server struct {
	store *store
	// Requests counts the answered requests, Kinds those of each kind.
	Requests int
	Kinds    map[string]int
	// refused counts the requests that were answered by 429, 500 or 503 only, acts the actions of the
	// history itself.
	refused, acts atomic.Int64
	// asks returns why an allocation must not be stored. It is nil without a guard.
	asks func(*guard.Request) error
	// slow is the maximum time between the guard's answer and the write.
	slow atomic.Int64
	// tooMany is called after mostRequests requests.
	tooMany func()
	// Trace gets each request and its error, if it is not nil.
	Trace func(*http.Request, error)
}

// NewServer returns a server without objects.
func NewServer() *Server {
	return &Server{store: newStore(resources), Kinds: map[string]int{}, tooMany: func() {}}
}

// request is a parsed request.
type request struct {
	verb        string
	collection  *collection
	key         types.NamespacedName
	subresource string
	body        []byte
	query       map[string][]string
	contentType string
	agent       string
	// judged is the version of the claim for which the guard allows the request, "" if the guard was not
	// asked.
	judged string
	// clock is the clock of the client's machine.
	clock *clock
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) serve(c *Connection, r *http.Request, body []byte) *http.Response {
	judged, denied := s.admit(c, r, body)
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	if s.Requests++; s.Requests == mostRequests {
		s.tooMany()
	}
	s.Kinds[kindOf(r)]++
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if response := s.discover(parts); response != nil {
		return response
	}
	req, err := s.parse(c, r, parts, body)
	if err != nil {
		return failure(err)
	}
	req.judged = judged
	if req.verb == "watch" {
		return s.watch(c, r, req)
	}
	var result answer
	if err = denied; err == nil {
		result, err = s.do(req)
	}
	if s.Trace != nil {
		s.Trace(r, err)
	}
	if err != nil {
		return failure(err)
	}
	return s.response(r, req, result)
}

func (s *Server) discover(parts []string) *http.Response {
	switch {
	case len(parts) == 1 && parts[0] == "api":
		return success(encode(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}), false)
	case len(parts) == 1 && parts[0] == "apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		seen := map[string]bool{"": true}
		for _, r := range resources {
			if !seen[r.Group] {
				seen[r.Group] = true
				gv := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion(r.Group, r.Version), Version: r.Version}
				list.Groups = append(list.Groups, metav1.APIGroup{Name: r.Group, Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv})
			}
		}
		return success(encode(list), false)
	case len(parts) == 2 && parts[0] == "api" && parts[1] == "v1":
		return success(encode(apiResourceList("", "v1")), false)
	case len(parts) == 3 && parts[0] == "apis":
		if list := apiResourceList(parts[1], parts[2]); list != nil {
			return success(encode(list), false)
		}
		return failure(apierrors.NewNotFound(schema.GroupResource{}, strings.Join(parts, "/")))
	}
	return nil
}

func (s *Server) parse(c *Connection, r *http.Request, parts []string, body []byte) (*request, error) {
	req := &request{
		query: r.URL.Query(), contentType: r.Header.Get("Content-Type"), agent: r.Header.Get("User-Agent"), body: body, clock: c.clock,
	}
	var group, version string
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path)
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		req.key.Namespace, parts = parts[1], parts[2:]
	}
	req.collection = s.store.collections[group+"/"+version+"/"+parts[0]]
	if req.collection == nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{Group: group, Resource: parts[0]}, "", "404 page not found", 0, true)
	}
	if len(parts) > 1 {
		req.key.Name = parts[1]
	}
	if len(parts) > 2 {
		req.subresource = parts[2]
	}
	switch r.Method {
	case http.MethodGet:
		switch {
		case req.key.Name != "":
			req.verb = "get"
		case first(req.query, "watch") == "true" || first(req.query, "watch") == "1":
			req.verb = "watch"
		default:
			req.verb = "list"
		}
	case http.MethodPost:
		req.verb = "create"
	case http.MethodPut:
		req.verb = "update"
	case http.MethodPatch:
		req.verb = "patch"
	case http.MethodDelete:
		req.verb = "delete"
	}
	return req, nil
}

func first(query map[string][]string, name string) string {
	if v := query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (s *Server) do(req *request) (answer, error) {
	switch req.verb {
	case "get":
		o, err := s.find(req)
		if err != nil {
			return answer{}, err
		}
		return answer{object: o}, nil
	case "list":
		return s.list(req)
	case "create":
		if req.collection.resource.Name == "events" {
			return answer{raw: req.body}, nil // Nobody reads them.
		}
		return s.create(req)
	case "update", "patch":
		return s.change(req)
	case "delete":
		return s.delete(req)
	}
	return answer{}, apierrors.NewMethodNotSupported(req.groupResource(), req.verb)
}

func (r *request) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.collection.resource.Group, Resource: r.collection.resource.Name}
}

func (s *Server) find(req *request) (*object, error) {
	if o := req.collection.objects[req.key]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(req.groupResource(), req.key.Name)
}

// selects returns the test of the request's selectors and namespace.
func selects(req *request) (func(*object) bool, error) {
	label, err := labels.Parse(first(req.query, "labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	field, err := fields.ParseSelector(first(req.query, "fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	namespace := req.key.Namespace
	return func(o *object) bool {
		if namespace != "" && o.text("namespace") != namespace {
			return false
		}
		if !label.Empty() {
			set := labels.Set{}
			if all, ok := o.metadata()["labels"].(map[string]any); ok {
				for k, v := range all {
					set[k], _ = v.(string)
				}
			}
			if !label.Matches(set) {
				return false
			}
		}
		for _, r := range field.Requirements() {
			value := lookup(o.fields, strings.Split(r.Field, "."))
			if equal := value == r.Value; equal != (r.Operator != "!=") {
				return false
			}
		}
		return true
	}, nil
}

func lookup(fields map[string]any, path []string) string {
	for i, name := range path {
		if i == len(path)-1 {
			s, _ := fields[name].(string)
			return s
		}
		fields, _ = fields[name].(map[string]any)
	}
	return ""
}

func (s *Server) list(req *request) (answer, error) {
	test, err := selects(req)
	if err != nil {
		return answer{}, err
	}
	limit := -1
	if first(req.query, "limit") == "1" {
		limit = 1 // Somebody wants to know the version of the list.
	}
	list := []*object{}
	for _, o := range req.collection.sorted() {
		if len(list) == limit {
			break
		}
		if test(o) {
			list = append(list, o)
		}
	}
	return answer{list: list}, nil
}

// versionNow returns the version of the store.
func (s *Server) versionNow() string { return strconv.FormatInt(s.store.version, 10) }

// versions returns the versions of the last changes of some collections.
func (s *Server) versions(names ...string) []int64 {
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	all := make([]int64, len(names))
	for i, name := range names {
		c := s.store.collections[name]
		if all[i] = c.trimmed; len(c.history) > 0 {
			all[i] = c.history[len(c.history)-1].version
		}
	}
	return all
}

// watch starts a watch. With sendInitialEvents, it first sends all objects, and then a bookmark.
func (s *Server) watch(c *Connection, r *http.Request, req *request) *http.Response {
	test, err := selects(req)
	if err != nil {
		return failure(err)
	}
	since, _ := strconv.ParseInt(first(req.query, "resourceVersion"), 10, 64)
	initial := first(req.query, "sendInitialEvents") == "true"
	if !initial && since < req.collection.trimmed {
		return failure(apierrors.NewResourceExpired("too old resource version"))
	}
	w := newWatch(c, req.collection, test, wantsBinary(r))
	if initial {
		for _, o := range req.collection.sorted() {
			w.offer(event{s.store.version, "ADDED", nil, o})
		}
		w.bookmark(s.store.version)
	} else {
		for _, e := range req.collection.history {
			if e.version > since {
				w.offer(e)
			}
		}
	}
	req.collection.watches[w] = struct{}{}
	c.follow(w)
	context.AfterFunc(r.Context(), func() { w.Close() })
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{"Content-Type": {w.contentType()}}, Body: w, ProtoMajor: 1, ProtoMinor: 1}
}

func failure(err error) *http.Response {
	status := apierrors.NewInternalError(err).Status()
	if known, ok := err.(apierrors.APIStatus); ok {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	body := encode(status)
	return &http.Response{StatusCode: int(status.Code), Status: http.StatusText(int(status.Code)), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), ProtoMajor: 1, ProtoMinor: 1}
}
