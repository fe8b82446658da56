package api

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// ClassicAPI is the part of v1alpha2 and v1alpha3 that serves the classic mode, apart from fields of claims and
// classes (hub.AlphaClaim, hub.AlphaClass). It is safe for concurrent use.
type ClassicAPI struct {
	untyped dynamic.Interface
	served  *Served
}

// ClassicOf returns the classic API of the server behind a client set. Like Of, it is nil for client sets that cannot
// have it.
func ClassicOf(client kubernetes.Interface) *ClassicAPI {
	c, ok := client.(*clientset)
	if !ok || c.resources.untyped == nil {
		return nil
	}
	return &ClassicAPI{untyped: c.resources.untyped, served: c.resources.served}
}

// SchedulingContexts is a client for PodSchedulingContexts.
type SchedulingContexts interface {
	Get(context.Context, string, metav1.GetOptions) (*PodSchedulingContext, error)
	List(context.Context, metav1.ListOptions) (*PodSchedulingContextList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Create(context.Context, *PodSchedulingContext, metav1.CreateOptions) (*PodSchedulingContext, error)
	// Update changes the spec, UpdateStatus the status.
	Update(context.Context, *PodSchedulingContext, metav1.UpdateOptions) (*PodSchedulingContext, error)
	UpdateStatus(context.Context, *PodSchedulingContext, metav1.UpdateOptions) (*PodSchedulingContext, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// Contexts returns the client for a namespace; for reading, "" means all namespaces. While the server lacks the
// resource, lists are empty and watches silent.
func (a *ClassicAPI) Contexts(namespace string) SchedulingContexts {
	return &anyVersion[PodSchedulingContext, PodSchedulingContextList, struct{}]{a.served, contextResource,
		func(version Version) backend[PodSchedulingContext, PodSchedulingContextList] {
			if version == None {
				return absent[PodSchedulingContext, PodSchedulingContextList]{a.served, contextResource}
			}
			return contextBackend{version, a.untyped.Resource(groupResource(version, contextResource)).Namespace(namespace)}
		},
	}
}

func groupResource(version Version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: resourceapi.GroupName, Version: string(version), Resource: resource}
}

// contextBackend is the backend of contexts in a version that the server has.
type contextBackend struct {
	version Version
	client  dynamic.ResourceInterface
}

func (b contextBackend) Get(ctx context.Context, name string, o metav1.GetOptions) (*PodSchedulingContext, error) {
	return readContext(b.client.Get(ctx, name, o))
}

func (b contextBackend) List(ctx context.Context, o metav1.ListOptions) (*PodSchedulingContextList, error) {
	list, err := b.client.List(ctx, o)
	if err != nil {
		return nil, err
	}
	result := &PodSchedulingContextList{ListMeta: metav1.ListMeta{
		ResourceVersion:    list.GetResourceVersion(),
		Continue:           list.GetContinue(),
		RemainingItemCount: list.GetRemainingItemCount(),
	}}
	for i := range list.Items {
		object, err := convertContext(&list.Items[i])
		if err != nil {
			return nil, err
		}
		result.Items = append(result.Items, *object)
	}
	return result, nil
}

func (b contextBackend) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	events, err := b.client.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return newConvertedWatch(events, convertContext), nil
}

func (b contextBackend) Create(ctx context.Context, object *PodSchedulingContext, o metav1.CreateOptions) (*PodSchedulingContext, error) {
	return b.send(object, func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return b.client.Create(ctx, u, o)
	})
}

func (b contextBackend) Update(ctx context.Context, object *PodSchedulingContext, o metav1.UpdateOptions) (*PodSchedulingContext, error) {
	return b.send(object, func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return b.client.Update(ctx, u, o)
	})
}

func (b contextBackend) UpdateStatus(ctx context.Context, object *PodSchedulingContext, o metav1.UpdateOptions) (*PodSchedulingContext, error) {
	return b.send(object, func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return b.client.UpdateStatus(ctx, u, o)
	})
}

func (b contextBackend) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return b.client.Delete(ctx, name, o)
}

func (b contextBackend) DeleteCollection(ctx context.Context, o metav1.DeleteOptions, which metav1.ListOptions) error {
	return b.client.DeleteCollection(ctx, o, which)
}

func (b contextBackend) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*PodSchedulingContext, error) {
	return readContext(b.client.Patch(ctx, name, kind, data, o, subresources...))
}

func (b contextBackend) send(object *PodSchedulingContext, send func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (*PodSchedulingContext, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("write PodSchedulingContext %s/%s: %w", object.Namespace, object.Name, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(b.version.groupVersion())
	u.SetKind("PodSchedulingContext")
	return readContext(send(u))
}

func readContext(object *unstructured.Unstructured, err error) (*PodSchedulingContext, error) {
	if err != nil {
		return nil, err
	}
	return convertContext(object)
}

func convertContext(object *unstructured.Unstructured) (*PodSchedulingContext, error) {
	result := &PodSchedulingContext{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, result); err != nil {
		return nil, fmt.Errorf("read PodSchedulingContext %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	result.TypeMeta = metav1.TypeMeta{}
	return result, nil
}
