package scenario

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// clusterScoped are the kinds without a namespace that scenarios use.
var clusterScoped = sets.New("Namespace", "Node", "DeviceClass", "DeviceTaintRule", "PriorityClass", "ResourceSlice")

// Objects creates and deletes objects of any kind that client-go knows.
type Objects struct {
	client dynamic.Interface
}

// NewObjects returns Objects that act through client.
func NewObjects(client dynamic.Interface) *Objects { return &Objects{client: client} }

// Create creates object; a namespaced one in namespace.
func (o *Objects) Create(ctx context.Context, namespace string, object runtime.Object) error {
	resource, content, err := o.prepare(namespace, object)
	if err != nil {
		return err
	}
	if _, err := resource.Create(ctx, content, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create %s: %w", objectTitle(object), err)
	}
	return nil
}

// Delete deletes object; a namespaced one in namespace.
func (o *Objects) Delete(ctx context.Context, namespace string, object runtime.Object) error {
	resource, content, err := o.prepare(namespace, object)
	if err != nil {
		return err
	}
	if err := resource.Delete(ctx, content.GetName(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete %s: %w", objectTitle(object), err)
	}
	return nil
}

// prepare finds the endpoint for an object and converts it. The object itself
// is not changed: a scenario's objects may be used again.
func (o *Objects) prepare(namespace string, object runtime.Object) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, nil, fmt.Errorf("%T is no kind of the Kubernetes API: %w", object, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, nil, fmt.Errorf("convert %s: %w", objectTitle(object), err)
	}
	content := &unstructured.Unstructured{Object: fields}
	content.SetGroupVersionKind(kinds[0])
	// The server says these.
	content.SetUID("")
	content.SetResourceVersion("")
	// The guess adds an s or es, which is right for all kinds in use.
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
	if clusterScoped.Has(kinds[0].Kind) {
		return o.client.Resource(plural), content, nil
	}
	content.SetNamespace(namespace)
	return o.client.Resource(plural).Namespace(namespace), content, nil
}
