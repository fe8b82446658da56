package scenario

import (
	"context"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	podgroups "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// clusterScoped are the kinds without a namespace that scenarios use.
var clusterScoped = sets.New("Namespace", "Node", "DeviceClass", "DeviceTaintRule", "PriorityClass", "ResourceSlice")

// kinds has the kinds of client-go, and PodGroups of scheduler-plugins.
var kinds = func() *runtime.Scheme {
	all := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(all))
	utilruntime.Must(podgroups.AddToScheme(all))
	return all
}()

// IsClusterScoped reports whether an object of a scenario has no namespace.
func IsClusterScoped(object runtime.Object) bool {
	known, _, err := kinds.ObjectKinds(object)
	return err == nil && clusterScoped.Has(known[0].Kind)
}

// documentSeparator is the line between two documents of a YAML file.
var documentSeparator = regexp.MustCompile(`(?m)^---$`)

// Decode returns the objects of a YAML file, in their order. Unknown fields are errors.
func Decode(text []byte) ([]runtime.Object, error) {
	decoder := serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for number, document := range documentSeparator.Split(string(text), -1) {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number+1, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Objects creates and deletes objects of any kind that client-go knows, and PodGroups of scheduler-plugins.
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

// prepare finds the endpoint for an object and converts it. It does not change the object, because a scenario's
// objects may be used again.
func (o *Objects) prepare(namespace string, object runtime.Object) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	known, _, err := kinds.ObjectKinds(object)
	if err != nil {
		return nil, nil, fmt.Errorf("%T is no kind of the Kubernetes API: %w", object, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, nil, fmt.Errorf("convert %s: %w", objectTitle(object), err)
	}
	content := &unstructured.Unstructured{Object: fields}
	content.SetGroupVersionKind(known[0])
	// The server sets these fields.
	content.SetUID("")
	content.SetResourceVersion("")
	// The guess adds an s or es, which is right for all kinds in use.
	plural, _ := meta.UnsafeGuessKindToResource(known[0])
	if IsClusterScoped(object) {
		return o.client.Resource(plural), content, nil
	}
	content.SetNamespace(namespace)
	return o.client.Resource(plural).Namespace(namespace), content, nil
}
