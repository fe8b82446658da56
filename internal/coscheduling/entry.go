package coscheduling

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
)

// entry is a PodGroup as the informer stores it: a group, or the error of one that the Go type cannot hold. A
// client for the Go type would fail to list all PodGroups because of that one.
type entry struct {
	metav1.Object
	group *v1alpha1.PodGroup
	err   error
}

func newEntry(group *v1alpha1.PodGroup) *entry { return &entry{Object: group, group: group} }

// toEntry is a cache.TransformFunc. Entries stay what they are, because it may be called twice.
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
	group.ManagedFields = nil // Nobody asks for them, and they are most of the object.
	return newEntry(group), nil
}

// unreadable has only what says which object this is in which state. The rest may be large.
func unreadable(source *unstructured.Unstructured, err error) *entry {
	which := &metav1.ObjectMeta{Namespace: source.GetNamespace(), Name: source.GetName(), UID: source.GetUID(), ResourceVersion: source.GetResourceVersion()}
	return &entry{Object: which, err: fmt.Errorf("a field of it is not what %s has there: %w; correct that field", v1alpha1.SchemeGroupVersion, err)}
}

// checkQuantities refuses what would take too long to convert: no server has parsed the quantities of a custom resource.
func checkQuantities(object map[string]any) error {
	least, _, err := unstructured.NestedFieldNoCopy(object, "spec", "minResources")
	if err != nil {
		return nil // No object in its place: converting it says so.
	}
	resources, _ := least.(map[string]any)
	for name, value := range resources {
		if text, is := value.(string); is && amount.IsEndless(strings.TrimSpace(text)) {
			return fmt.Errorf("minResources of %s: %w", name, amount.ErrEndless)
		}
	}
	return nil
}
