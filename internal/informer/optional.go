package informer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// An Optional is a custom resource that may not be installed, or may appear and disappear while the process runs.
type Optional struct {
	Resource  schema.GroupVersionResource
	Client    dynamic.Interface
	Discovery discovery.ServerResourcesInterfaceWithContext
}

// NewOptional returns a resource of a server.
func NewOptional(config *rest.Config, resource schema.GroupVersionResource) (o Optional, err error) {
	o.Resource = resource
	if o.Client, err = dynamic.NewForConfig(config); err != nil {
		return o, fmt.Errorf("client for %s: %w", resource.GroupResource(), err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return o, fmt.Errorf("client to discover %s: %w", resource.GroupResource(), err)
	}
	o.Discovery = discovery.ToServerResourcesInterfaceWithContext(discoverer)
	return o, nil
}

// Served reports whether the server has the resource. The error means that the server gave no answer.
func (o Optional) Served(ctx context.Context) (bool, error) {
	list, err := o.Discovery.ServerResourcesForGroupVersionWithContext(ctx, o.Resource.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("ask the API server what it has of %s: %w", o.Resource.GroupVersion(), err)
	}
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == o.Resource.Resource }), nil
}

// Follow runs an informer until the resource or the context is gone, and reports whether the resource is. begin gets the informer before it
// runs, and observe the outcome of each request. When Follow returns, no handler runs any more.
func (o Optional) Follow(parent context.Context, transform cache.TransformFunc, begin func(cache.SharedIndexInformer), observe func(context.Context, error)) bool {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	lost := make(chan struct{}, 1)
	source := cache.NewSharedIndexInformer(o.listerWatcher(func(ctx context.Context, err error) {
		if ctx.Err() != nil {
			return
		}
		if apierrors.IsNotFound(err) {
			select {
			case lost <- struct{}{}:
			default: // The previous value was not received yet.
			}
		}
		observe(ctx, err)
	}), &unstructured.Unstructured{}, 0, cache.Indexers{})
	// None of these calls fails before the informer runs.
	_ = source.SetTransform(transform)
	_ = source.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		klog.FromContext(ctx).V(4).Info("A custom resource has to be listed or watched again", "resource", o.Resource, "err", err)
	})
	begin(source)
	var running sync.WaitGroup
	running.Go(func() { source.RunWithContext(ctx) })
	gone := o.awaitLoss(ctx, lost)
	cancel()
	running.Wait()
	return gone
}

// awaitLoss returns true once the server no longer has the resource, false when the context ends. A failed request is not enough: a
// starting server may answer NotFound for a moment.
func (o Optional) awaitLoss(ctx context.Context, lost <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-lost:
			if served, err := o.Served(ctx); err == nil && !served {
				return true
			}
		}
	}
}

func (o Optional) listerWatcher(observe func(context.Context, error)) cache.ListerWatcher {
	client := o.Client.Resource(o.Resource)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, options)
			observe(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := client.Watch(ctx, options)
			observe(ctx, err)
			return watcher, err
		},
	}, o.Client)
}
