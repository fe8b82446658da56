package crd

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
)

// An entry is a PodGroup as the informer stores it: a group, or an error if the Go type cannot hold it. A client for
// the Go type would fail to list all PodGroups because of a single bad one.
type entry struct {
	metav1.Object
	group *v1alpha1.PodGroup
	err   error
}

func newEntry(group *v1alpha1.PodGroup) *entry { return &entry{Object: group, group: group} }

// toEntry is a cache.TransformFunc. It leaves entries as they are, because it may be called twice.
func toEntry(obj any) (any, error) {
	source, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	group := &v1alpha1.PodGroup{}
	if err := checkQuantities(source.Object); err != nil {
		return unreadable(source, err), nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(source.Object, group); err != nil {
		return unreadable(source, err), nil
	}
	group.ManagedFields = nil // Not needed here, and most of the object.
	return newEntry(group), nil
}

// unreadable returns an entry with only the identity and the version of an object: the rest may be large.
func unreadable(source *unstructured.Unstructured, err error) *entry {
	which := &metav1.ObjectMeta{Namespace: source.GetNamespace(), Name: source.GetName(), UID: source.GetUID(), ResourceVersion: source.GetResourceVersion()}
	return &entry{Object: which, err: fmt.Errorf("a field does not have its type in %s: %w; correct that field", v1alpha1.SchemeGroupVersion, err)}
}

// checkQuantities rejects quantities that would take too long to convert: no server has parsed those of a custom
// resource.
func checkQuantities(object map[string]any) error {
	least, _, err := unstructured.NestedFieldNoCopy(object, "spec", "minResources")
	if err != nil {
		return nil // Not an object: the conversion reports that.
	}
	resources, _ := least.(map[string]any)
	for name, value := range resources {
		if text, is := value.(string); is && quantity.IsEndless(strings.TrimSpace(text)) {
			return fmt.Errorf("minResources of %s: %w", name, quantity.ErrEndless)
		}
	}
	return nil
}
