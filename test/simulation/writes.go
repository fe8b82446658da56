package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

func (s *Server) create(req *request) (answer, error) {
	if req.subresource == "binding" {
		return s.bind(req)
	}
	content, err := decode(req.body)
	if err != nil {
		return answer{}, err
	}
	content = req.clock.written(content, nil)
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
	name, _ := metadata["name"].(string)
	if name == "" {
		return answer{}, apierrors.NewBadRequest("name or generateName is required")
	}
	key := types.NamespacedName{Namespace: req.key.Namespace, Name: name}
	if req.collection.objects[key] != nil {
		return answer{}, apierrors.NewAlreadyExists(req.groupResource(), key.Name)
	}
	if err := s.authorize(req, nil, content); err != nil {
		return answer{}, err
	}
	return answer{object: s.store.put(req.collection, key, nil, content)}, nil
}

func (s *Server) bind(req *request) (answer, error) {
	o, err := s.find(req)
	if err != nil {
		return answer{}, err
	}
	content, err := decode(req.body)
	if err != nil {
		return answer{}, err
	}
	node := lookup(content, []string{"target", "name"})
	if lookup(o.fields, []string{"spec", "nodeName"}) != "" || o.metadata()["deletionTimestamp"] != nil {
		return answer{}, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("pod is already assigned to a node or being deleted"))
	}
	if uid := lookup(content, []string{"metadata", "uid"}); uid != "" && uid != o.text("uid") {
		return answer{}, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("uid differs"))
	}
	next := copied(o)
	next["spec"].(map[string]any)["nodeName"] = node
	s.store.put(req.collection, req.key, o, next)
	return answer{raw: encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success", Code: 201})}, nil
}

// copied returns a deep copy of the fields for a change.
func copied(o *object) map[string]any { return runtime.DeepCopyJSON(o.fields) }

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

func (s *Server) change(req *request) (answer, error) {
	o, err := s.find(req)
	if err != nil {
		return answer{}, err
	}
	wanted, err := s.wanted(req, o)
	if err != nil {
		return answer{}, err
	}
	if req.judged != "" && req.judged != o.text("resourceVersion") {
		return answer{}, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("the object has changed while a webhook was asked"))
	}
	metadata := wanted["metadata"].(map[string]any)
	if v, _ := metadata["resourceVersion"].(string); v != "" && v != o.text("resourceVersion") {
		return answer{}, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("version %s is asked for, and the object has %s", v, o.text("resourceVersion")))
	}
	if uid, _ := metadata["uid"].(string); uid != "" && uid != o.text("uid") {
		return answer{}, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("UID %s is asked for, and the object has %s", uid, o.text("uid")))
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
		forgetDevices(o, next)
		record(o, next, managerOf(req, req.agent), req.subresource, time.Now())
	}
	if err := s.authorize(req, o, next); err != nil {
		return answer{}, err
	}
	if err := validate(req.collection, o, next, req.subresource); err != nil {
		return answer{}, err
	}
	if reflect.DeepEqual(next, o.fields) {
		return answer{object: o}, nil
	}
	now := s.store.put(req.collection, req.key, o, next)
	if now.metadata()["deletionTimestamp"] != nil && len(now.finalizers()) == 0 && req.collection.resource.Name != "pods" {
		s.store.remove(req.collection, req.key, now)
	}
	return answer{object: now}, nil
}

// wanted returns the object in the state that the request asks for.
func (s *Server) wanted(req *request, o *object) (map[string]any, error) {
	if req.verb == "update" {
		content, err := decode(req.body)
		if err != nil {
			return nil, err
		}
		return req.clock.written(content, o), nil
	}
	patch := map[string]any{}
	if err := json.Unmarshal(req.body, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	patch = req.clock.written(patch, o)
	wanted := copied(o)
	switch types.PatchType(req.contentType) {
	case types.MergePatchType:
		merge(wanted, patch)
	case types.StrategicMergePatchType, types.ApplyYAMLPatchType:
		r := req.collection.resource
		typed, failed := scheme.Scheme.New(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind})
		if failed != nil {
			return nil, apierrors.NewBadRequest(failed.Error())
		}
		if wanted, failed = strategicpatch.StrategicMergeMapPatch(wanted, patch, typed); failed != nil {
			return nil, apierrors.NewBadRequest(failed.Error())
		}
	default:
		return nil, apierrors.NewBadRequest("patch type " + req.contentType + " is not simulated")
	}
	return wanted, nil
}

// merge applies a JSON merge patch (RFC 7386).
func merge(into, patch map[string]any) {
	for name, value := range patch {
		next, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isMap:
			below, ok := into[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				into[name] = below
			}
			merge(below, next)
		default:
			into[name] = value
		}
	}
}

func (s *Server) delete(req *request) (answer, error) {
	o, err := s.find(req)
	if err != nil {
		return answer{}, err
	}
	var options metav1.DeleteOptions
	if len(req.body) > 0 {
		if err := json.Unmarshal(req.body, &options); err != nil {
			return answer{}, apierrors.NewBadRequest(err.Error())
		}
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && string(*p.UID) != o.text("uid") || p.ResourceVersion != nil && *p.ResourceVersion != o.text("resourceVersion") {
			return answer{}, apierrors.NewConflict(req.groupResource(), req.key.Name, fmt.Errorf("precondition failed"))
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
		return answer{object: o}, nil
	}
	return answer{object: s.store.remove(req.collection, req.key, o)}, nil
}
