package crd

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// follow keeps the store in sync with the server until the resource or the context is gone. When it returns, listeners
// are not called any more. If the resource is gone, they have been told that each PodGroup is gone.
func (g *Groups) follow(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	lost := make(chan struct{}, 1)
	source := cache.NewSharedIndexInformer(g.listerWatcher(lost), &unstructured.Unstructured{}, 0, cache.Indexers{})
	// None of these calls fails before the informer runs.
	_ = source.SetTransform(toEntry)
	_ = source.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		klog.FromContext(ctx).V(4).Info("PodGroups have to be listed or watched again", "err", err)
	})
	_, _ = informer.AfterEvents(source, func(key string) { g.listeners.tell(key, groupIn(source.GetStore(), key)) })
	g.note(nil)
	g.use(source.GetStore(), source.HasSynced)

	var running sync.WaitGroup
	running.Go(func() { source.RunWithContext(ctx) })
	gone := g.awaitLoss(ctx, lost)
	cancel()
	running.Wait() // Handlers do not run any more.
	if gone {
		klog.FromContext(ctx).Info("The CustomResourceDefinition of PodGroups is gone. Pods that name a PodGroup wait until it is installed again")
		g.note(ErrNotInstalled)
		g.use(nil, nil)
		g.listeners.tellAll(nil) // The stopped informer may have dropped pending events.
	}
}

// groupIn returns the PodGroup in a store, nil if it is missing or unreadable.
func groupIn(store cache.Store, key string) *v1alpha1.PodGroup {
	if e := informer.Object[entry](store, key); e != nil {
		return e.group
	}
	return nil
}

// awaitLoss returns true once the server no longer has the resource, false when the context ends. A failed request is
// not enough: a starting server may answer NotFound for a moment.
func (g *Groups) awaitLoss(ctx context.Context, lost <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-lost:
			if errors.Is(g.look(ctx), ErrNotInstalled) {
				return true
			}
		}
	}
}

// listerWatcher notes the outcome of each request. lost receives a value when the server did not find the resource.
func (g *Groups) listerWatcher(lost chan<- struct{}) cache.ListerWatcher {
	observe := func(ctx context.Context, err error) {
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsNotFound(err):
			select {
			case lost <- struct{}{}:
			default: // The previous value was not received yet.
			}
			g.note(err)
			return // follow logs that it is gone.
		case apierrors.IsInvalid(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			return // An older server cannot stream the list, or the watch was interrupted for long: the next request tells more.
		}
		if g.note(err) {
			klog.FromContext(ctx).Info("Cannot read PodGroups; trying again", "err", err)
		}
	}
	client := g.client.Resource(resource)
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
	}, g.client)
}
