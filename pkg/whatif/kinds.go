package whatif

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// ObjectKind is a kind of objects of a Snapshot.
type ObjectKind struct {
	schema.GroupVersionResource
	Namespaced bool
	// List lists the objects of a namespace, "" for all.
	List func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error)
}

// Name returns the name of the resource as in Missing.
func (k *ObjectKind) Name() string { return k.GroupResource().String() }

// Kinds lists all kinds of objects of a Snapshot.
var Kinds = []ObjectKind{
	{v1.SchemeGroupVersion.WithResource("nodes"), false,
		func(ctx context.Context, client kubernetes.Interface, _ string, options metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, options)
		}},
	{resourceapi.SchemeGroupVersion.WithResource("resourceslices"), false,
		func(ctx context.Context, client kubernetes.Interface, _ string, options metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().ResourceSlices().List(ctx, options)
		}},
	{resourceapi.SchemeGroupVersion.WithResource("deviceclasses"), false,
		func(ctx context.Context, client kubernetes.Interface, _ string, options metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().DeviceClasses().List(ctx, options)
		}},
	{taintRules, false,
		func(ctx context.Context, client kubernetes.Interface, _ string, options metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().DeviceTaintRules().List(ctx, options)
		}},
	{resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), true,
		func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().ResourceClaims(namespace).List(ctx, options)
		}},
	{resourceapi.SchemeGroupVersion.WithResource("resourceclaimtemplates"), true,
		func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return client.ResourceV1().ResourceClaimTemplates(namespace).List(ctx, options)
		}},
	{v1.SchemeGroupVersion.WithResource("pods"), true,
		func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(namespace).List(ctx, options)
		}},
}

var taintRules = resourceapi.SchemeGroupVersion.WithResource("devicetaintrules")

// Add adds an object. It ignores objects of other kinds.
func (o *Objects) Add(object runtime.Object) {
	switch one := object.(type) {
	case *v1.Node:
		o.Nodes = append(o.Nodes, one)
	case *v1.Pod:
		o.Pods = append(o.Pods, one)
	case *resourceapi.ResourceSlice:
		o.Slices = append(o.Slices, one)
	case *resourceapi.ResourceClaim:
		o.Claims = append(o.Claims, one)
	case *resourceapi.ResourceClaimTemplate:
		o.Templates = append(o.Templates, one)
	case *resourceapi.DeviceClass:
		o.Classes = append(o.Classes, one)
	case *resourceapi.DeviceTaintRule:
		o.TaintRules = append(o.TaintRules, one)
	}
}

// FromListers returns the objects that informers have in their caches. The informers of nodes, pods
// and all resources of resource.k8s.io/v1 except DeviceTaintRules must be synced; DeviceTaintRules
// are only read if withRules. Nothing is copied.
func FromListers(factory informers.SharedInformerFactory, withRules bool) (Objects, error) {
	var o Objects
	for _, kind := range Kinds {
		if kind.GroupVersionResource == taintRules && !withRules {
			continue
		}
		informer, err := factory.ForResource(kind.GroupVersionResource)
		if err != nil {
			return o, fmt.Errorf("list %s from the informer's cache: %w", kind.Name(), err)
		}
		found, err := informer.Lister().List(labels.Everything())
		if err != nil {
			return o, fmt.Errorf("list %s from the informer's cache: %w", kind.Name(), err)
		}
		for _, object := range found {
			o.Add(object)
		}
	}
	return o, nil
}
