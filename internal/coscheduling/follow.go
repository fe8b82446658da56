package coscheduling

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

// follow keeps the store in step with the server until the resource or the context is gone. When it returns, changed
// is not called any more, and if the resource is gone, it was told so of each PodGroup.
func (g *Groups) follow(parent context.Context, changed func(before, after *v1alpha1.PodGroup)) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	lost := make(chan struct{}, 1)
	source := cache.NewSharedIndexInformer(g.listerWatcher(lost), &unstructured.Unstructured{}, 0, cache.Indexers{})
	told := teller{store: source.GetStore(), changed: changed, groups: make(map[string]*v1alpha1.PodGroup)}
	// None of these fails before the informer runs.
	_ = source.SetTransform(toEntry)
	_ = source.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		klog.FromContext(ctx).V(4).Info("PodGroups have to be listed or watched again", "err", err)
	})
	_, _ = informer.AfterEvents(source, told.refresh)
	g.note(nil)
	g.use(source.GetStore(), source.HasSynced)

	var running sync.WaitGroup
	running.Go(func() { source.RunWithContext(ctx) })
	gone := g.awaitLoss(ctx, lost)
	cancel()
	running.Wait() // Handlers do not run any more.
	if gone {
		klog.FromContext(ctx).Info("The CustomResourceDefinition of PodGroups is gone. Pods that name a PodGroup wait until it is installed again")
		g.note(errNotInstalled)
		g.use(nil, nil)
		told.forget()
	}
}

// awaitLoss returns true when the server does not have the resource any more, false when the context ends. A request
// that did not find it is not enough: a server that starts may say so for a moment.
func (g *Groups) awaitLoss(ctx context.Context, lost <-chan struct{}) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-lost:
			if errors.Is(g.look(ctx), errNotInstalled) {
				return true
			}
		}
	}
}

// teller tells what Get shows. Its methods are called one after the other.
type teller struct {
	store   cache.Store
	changed func(before, after *v1alpha1.PodGroup)
	// groups are those that were told and not told to be gone, by namespace/name.
	groups map[string]*v1alpha1.PodGroup
}

func (t *teller) refresh(key string) {
	var after *v1alpha1.PodGroup
	if e := informer.Object[entry](t.store, key); e != nil {
		after = e.group
	}
	before := t.groups[key]
	switch {
	case after == nil && before == nil:
		return
	case after == nil:
		delete(t.groups, key)
	case before != nil && before.UID == after.UID && before.ResourceVersion == after.ResourceVersion:
		return
	default:
		t.groups[key] = after
	}
	t.changed(before, after)
}

// forget tells that all are gone. Events that were under way when the informer was stopped were not heard.
func (t *teller) forget() {
	for _, group := range t.groups {
		t.changed(group, nil)
	}
	clear(t.groups)
}

// listerWatcher notes the outcome of each request. lost gets a value when the server did not find the resource.
func (g *Groups) listerWatcher(lost chan<- struct{}) cache.ListerWatcher {
	observe := func(ctx context.Context, err error) {
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsNotFound(err):
			select {
			case lost <- struct{}{}:
			default: // It has one that was not yet looked at.
			}
			g.note(err)
			return // If it is gone, that is logged.
		case apierrors.IsInvalid(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			return // An older server cannot stream the list, or the watch was interrupted for long: what is asked next says more.
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
