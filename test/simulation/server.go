package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// Server is an API server in memory. It does what matters of one to a scheduler.
type Server struct {
	store *store
	// Requests counts those that were answered.
	Requests int
	Kinds    map[string]int
	// Trace is told each request, if it is not nil.
	Trace func(*http.Request, error)
}

// NewServer returns one without objects.
func NewServer() *Server {
	return &Server{store: newStore(resources), Kinds: map[string]int{}}
}

// request is one that was understood.
type request struct {
	verb        string
	collection  *collection
	key         types.NamespacedName
	subresource string
	body        []byte
	query       map[string][]string
	contentType string
	agent       string
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
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	s.Requests++
	s.Kinds[kindOf(r)]++
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if response := s.discover(parts); response != nil {
		return response
	}
	req, err := s.parse(r, parts)
	if err != nil {
		return failure(err)
	}
	req.body = body
	if req.verb == "watch" {
		return s.watch(c, r, req)
	}
	answer, err := s.do(req)
	if s.Trace != nil {
		s.Trace(r, err)
	}
	if err != nil {
		return failure(err)
	}
	return success(answer)
}

func (s *Server) discover(parts []string) *http.Response {
	switch {
	case len(parts) == 1 && parts[0] == "api":
		return success(encode(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}))
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
		return success(encode(list))
	case len(parts) == 2 && parts[0] == "api" && parts[1] == "v1":
		return success(encode(apiResourceList("", "v1")))
	case len(parts) == 3 && parts[0] == "apis":
		if list := apiResourceList(parts[1], parts[2]); list != nil {
			return success(encode(list))
		}
		return failure(apierrors.NewNotFound(schema.GroupResource{}, strings.Join(parts, "/")))
	}
	return nil
}

func (s *Server) parse(r *http.Request, parts []string) (*request, error) {
	req := &request{query: r.URL.Query(), contentType: r.Header.Get("Content-Type"), agent: r.Header.Get("User-Agent")}
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

func (s *Server) do(req *request) ([]byte, error) {
	switch req.verb {
	case "get":
		o, err := s.find(req)
		if err != nil {
			return nil, err
		}
		return o.raw, nil
	case "list":
		return s.list(req)
	case "create":
		if req.collection.resource.Name == "events" {
			return req.body, nil // Nobody reads them.
		}
		return s.create(req)
	case "update", "patch":
		return s.change(req)
	case "delete":
		return s.delete(req)
	}
	return nil, apierrors.NewMethodNotSupported(req.groupResource(), req.verb)
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

func (s *Server) list(req *request) ([]byte, error) {
	test, err := selects(req)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	r := req.collection.resource
	fmt.Fprintf(&b, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, r.Kind, groupVersion(r.Group, r.Version), s.store.version)
	n, limit := 0, -1
	if first(req.query, "limit") == "1" {
		limit = 1 // Somebody wants to know the version of the list.
	}
	for _, o := range req.collection.sorted() {
		if n == limit {
			break
		}
		if !test(o) {
			continue
		}
		if n++; n > 1 {
			b.WriteByte(',')
		}
		b.Write(o.raw)
	}
	b.WriteString("]}")
	return b.Bytes(), nil
}

// watch begins one. With sendInitialEvents it brings everything first, and then a bookmark.
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
	w := newWatch(c, req.collection, test)
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
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{"Content-Type": {"application/json"}}, Body: w, ProtoMajor: 1, ProtoMinor: 1}
}

func (s *Server) create(req *request) ([]byte, error) {
	if req.subresource == "binding" {
		return s.bind(req)
	}
	content, err := decode(req.body)
	if err != nil {
		return nil, err
	}
	metadata := content["metadata"].(map[string]any)
	r := req.collection.resource
	content["kind"], content["apiVersion"] = r.Kind, groupVersion(r.Group, r.Version)
	if r.Namespaced {
		metadata["namespace"] = req.key.Namespace
	}
	s.store.stamp(content, time.Now())
	if r.Status && r.Name != "nodes" && r.Name != "pods" {
		delete(content, "status")
	}
	if r.Name == "resourceclaims" {
		record(nil, content, managerOf(req, req.agent), "", time.Now())
	}
	key := types.NamespacedName{Namespace: req.key.Namespace, Name: metadata["name"].(string)}
	if req.collection.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(req.groupResource(), key.Name)
	}
	return s.store.put(req.collection, key, nil, content).raw, nil
}

func (s *Server) bind(req *request) ([]byte, error) {
	o, err := s.find(req)
	if err != nil {
		return nil, err
	}
	content, err := decode(req.body)
	if err != nil {
		return nil, err
	}
	node := lookup(content, []string{"target", "name"})
	if lookup(o.fields, []string{"spec", "nodeName"}) != "" || o.metadata()["deletionTimestamp"] != nil {
		return nil, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("pod is already assigned to a node or being deleted"))
	}
	if uid := lookup(content, []string{"metadata", "uid"}); uid != "" && uid != o.text("uid") {
		return nil, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("uid differs"))
	}
	next := copied(o)
	next["spec"].(map[string]any)["nodeName"] = node
	s.store.put(req.collection, req.key, o, next)
	return encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success", Code: 201}), nil
}

// copied returns a copy of the fields to be changed: deep, by way of the JSON.
func copied(o *object) map[string]any {
	content, err := decode(o.raw)
	if err != nil {
		panic(err)
	}
	return content
}

func decode(raw []byte) (map[string]any, error) {
	content := map[string]any{}
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if _, ok := content["metadata"].(map[string]any); !ok {
		content["metadata"] = map[string]any{}
	}
	return content, nil
}

func (s *Server) change(req *request) ([]byte, error) {
	o, err := s.find(req)
	if err != nil {
		return nil, err
	}
	wanted, err := s.wanted(req, o)
	if err != nil {
		return nil, err
	}
	metadata := wanted["metadata"].(map[string]any)
	if v, _ := metadata["resourceVersion"].(string); v != "" && v != o.text("resourceVersion") {
		return nil, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid, _ := metadata["uid"].(string); uid != "" && uid != o.text("uid") {
		return nil, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, o.text("uid")))
	}
	next := maps.Clone(o.fields)
	if req.subresource == "status" {
		next["metadata"] = maps.Clone(o.metadata())
		next["status"] = wanted["status"]
	} else {
		for name, value := range wanted {
			if name != "status" || !req.collection.resource.Status {
				next[name] = value
			}
		}
		for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace"} {
			if v, ok := o.metadata()[name]; ok {
				metadata[name] = v
			} else {
				delete(metadata, name)
			}
		}
		next["metadata"] = metadata
	}
	if req.collection.resource.Name == "resourceclaims" {
		record(o, next, managerOf(req, req.agent), req.subresource, time.Now())
	}
	if err := validate(req.collection, o, next, req.subresource); err != nil {
		return nil, err
	}
	if reflect.DeepEqual(next, o.fields) {
		return o.raw, nil
	}
	now := s.store.put(req.collection, req.key, o, next)
	if now.metadata()["deletionTimestamp"] != nil && len(now.finalizers()) == 0 && req.collection.resource.Name != "pods" {
		s.store.remove(req.collection, req.key, now)
	}
	return now.raw, nil
}

// wanted is the object as the request wants it.
func (s *Server) wanted(req *request, o *object) (map[string]any, error) {
	if req.verb == "update" {
		return decode(req.body)
	}
	var raw []byte
	var err error
	switch types.PatchType(req.contentType) {
	case types.MergePatchType:
		raw, err = jsonpatch.MergePatch(o.raw, req.body)
	case types.StrategicMergePatchType, types.ApplyYAMLPatchType:
		r := req.collection.resource
		typed, failed := scheme.Scheme.New(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind})
		if failed != nil {
			return nil, apierrors.NewBadRequest(failed.Error())
		}
		raw, err = strategicpatch.StrategicMergePatch(o.raw, req.body, typed)
	default:
		return nil, apierrors.NewBadRequest("patch type " + req.contentType + " is not simulated")
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return decode(raw)
}

func (s *Server) delete(req *request) ([]byte, error) {
	o, err := s.find(req)
	if err != nil {
		return nil, err
	}
	var options metav1.DeleteOptions
	if len(req.body) > 0 {
		if err := json.Unmarshal(req.body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && string(*p.UID) != o.text("uid") || p.ResourceVersion != nil && *p.ResourceVersion != o.text("resourceVersion") {
			return nil, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("precondition failed"))
		}
	}
	graceful := req.collection.resource.Name == "pods" && lookup(o.fields, []string{"spec", "nodeName"}) != "" &&
		(options.GracePeriodSeconds == nil || *options.GracePeriodSeconds > 0)
	if graceful || len(o.finalizers()) > 0 {
		if o.metadata()["deletionTimestamp"] == nil {
			next := copied(o)
			metadata := next["metadata"].(map[string]any)
			metadata["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
			metadata["deletionGracePeriodSeconds"] = float64(30)
			o = s.store.put(req.collection, req.key, o, next)
		}
		return o.raw, nil
	}
	return s.store.remove(req.collection, req.key, o).raw, nil
}

func success(body []byte) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), ProtoMajor: 1, ProtoMinor: 1}
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

// count returns how many requests were answered so far, without what replicas ask and renew at intervals.
func (s *Server) count() int {
	s.store.mutex.Lock()
	defer s.store.mutex.Unlock()
	n := 0
	for kind, times := range s.Kinds {
		if !strings.Contains(kind, " leases ") && !strings.HasPrefix(kind, foreign) && !strings.Contains(kind, "GET validatingwebhookconfigurations") && !strings.HasSuffix(kind, "GET resourceclaims ") {
			n += times
		}
	}
	return n
}

// kindOf names what a request is about: who, how, and of which resource.
func kindOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "apis" {
		parts = parts[1:]
	}
	parts = parts[min(2, len(parts)):]
	if len(parts) >= 3 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	text := r.Header.Get("User-Agent") + " " + r.Method + " "
	for i, p := range parts {
		if i != 1 {
			text += p + " "
		} else {
			text += "x "
		}
	}
	if r.URL.Query().Get("watch") != "" {
		text += "watch"
	}
	return text
}
