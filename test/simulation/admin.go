package simulation

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// admin is the theme of histories with claims for admin access (KEP-5018), which the namespace has to permit.
const admin = "admin access"

func setupAdmin(g *generator) {
	g.add(0, func(w *World) { w.permitAdmin(true) }, "the namespace permits admin access")
	g.createKinds(admin)
}

// changeAdmin makes the namespace not permit admin access for a while.
func changeAdmin(g *generator) {
	g.add(g.soon(), func(w *World) { w.permitAdmin(false) }, "the namespace does not permit admin access")
	g.later(g.soon(), func(w *World) { w.permitAdmin(true) }, "the namespace permits admin access")
}

// permitAdmin sets or removes the label that permits admin access. The first call creates the namespace.
func (w *World) permitAdmin(on bool) {
	api := w.client.CoreV1().Namespaces()
	known, err := api.Get(w.ctx, namespace, metav1.GetOptions{})
	if err != nil {
		known, err = api.Create(w.ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	}
	if err != nil {
		return
	}
	known.Labels = maps.Clone(known.Labels)
	if known.Labels == nil {
		known.Labels = map[string]string{}
	}
	known.Labels[resourceapi.DRAAdminNamespaceLabelKey] = "true"
	if !on {
		delete(known.Labels, resourceapi.DRAAdminNamespaceLabelKey)
	}
	ignore(api.Update(w.ctx, known, metav1.UpdateOptions{}))
}

// authorize applies kube-apiserver's rule for admin access: a claim or template may ask for it, and a claim may get it, only in a
// namespace that permits it. The store's mutex is held.
func (s *Server) authorize(req *request, was *object, next map[string]any) error {
	r := req.collection.resource
	claims := r.Name == "resourceclaims"
	if !claims && r.Name != "resourceclaimtemplates" {
		return nil
	}
	var asks, path = false, field.NewPath("spec", "devices", "requests")
	switch {
	case was == nil && claims:
		asks = anyTrue(next, "spec", "devices", "requests", "exactly", "adminAccess")
	case was == nil:
		asks = anyTrue(next, "spec", "spec", "devices", "requests", "exactly", "adminAccess")
	case req.subresource == "status":
		path = field.NewPath("status", "allocation", "devices", "results")
		has := []string{"status", "allocation", "devices", "results", "adminAccess"}
		asks = anyTrue(next, has...) && !anyTrue(was.fields, has...)
	}
	if !asks {
		return nil
	}
	if o := s.store.collections["/v1/namespaces"].objects[types.NamespacedName{Name: req.key.Namespace}]; o != nil && lookup(o.fields, []string{"metadata", "labels", resourceapi.DRAAdminNamespaceLabelKey}) == "true" {
		return nil
	}
	problem := field.Forbidden(path.Child("adminAccess"), "the namespace has no label "+resourceapi.DRAAdminNamespaceLabelKey+": true")
	return apierrors.NewInvalid(r.kind().GroupKind(), req.key.Name, field.ErrorList{problem})
}

// anyTrue reports whether there is a true at a path, which may lead through lists.
func anyTrue(value any, path ...string) bool {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if anyTrue(item, path...) {
				return true
			}
		}
	case map[string]any:
		return len(path) > 0 && anyTrue(v[path[0]], path[1:]...)
	case bool:
		return v && len(path) == 0
	}
	return false
}
