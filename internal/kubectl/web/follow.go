package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

const (
	// pace is the least pause between two updates of the map. restFactor is the least pause as a multiple of the last
	// update's duration: updates take at most a fifth of one processor's time.
	pace       = 500 * time.Millisecond
	restFactor = 4
)

// Follow shows a cluster until the context ends. Without the right to read a kind of objects in all namespaces, it
// shows those of one namespace, and the map says so.
func Follow(ctx context.Context, client kubernetes.Interface, namespace string, shown *Map) error {
	f := &follower{client: client, namespace: namespace, changed: make(chan struct{}, 1)}
	f.everywhere = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	f.within = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim), informers.WithNamespace(namespace))
	for _, kind := range whatif.Kinds {
		if err := f.begin(ctx, kind); err != nil {
			return err
		}
	}
	f.everywhere.Start(ctx.Done())
	f.within.Start(ctx.Done())
	for _, factory := range []informers.SharedInformerFactory{f.everywhere, f.within} {
		for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
			if !ok && ctx.Err() == nil {
				return fmt.Errorf("read all %s of the cluster: the watch ended", kind)
			}
		}
	}
	f.resolver = api.ResolverOf(client)
	if f.resolver != nil {
		f.resolver.OnChange(func(func(*resourceapi.ResourceClaim) bool) { f.wake() })
	}
	f.wake()
	return f.run(ctx, shown)
}

// follower holds the objects of the cluster.
type follower struct {
	client             kubernetes.Interface
	namespace          string
	everywhere, within informers.SharedInformerFactory
	stores             []cache.Store
	resolver           *api.Resolver
	changed            chan struct{}

	mu      sync.Mutex
	missing map[string]whatif.Missing
}

// begin follows a kind of objects, as far as it may be read.
func (f *follower) begin(ctx context.Context, kind whatif.ObjectKind) error {
	probe := func(namespace string) error {
		_, err := kind.List(ctx, f.client, namespace, metav1.ListOptions{Limit: 1})
		return err
	}
	factory, resource := f.everywhere, kind.Name()
	err := probe(metav1.NamespaceAll)
	switch {
	case apierrors.IsForbidden(err) && kind.Namespaced && f.namespace != "" && probe(f.namespace) == nil:
		factory = f.within
		f.miss(whatif.Missing{Resource: resource, Forbidden: true, Namespace: f.namespace,
			Why: fmt.Sprintf("the right to list %s in all namespaces is missing; only those of namespace %s are known", resource, f.namespace)})
	case apierrors.IsForbidden(err):
		f.miss(whatif.Missing{Resource: resource, Forbidden: true, Why: fmt.Sprintf("the right to list %s is missing", resource)})
		return nil
	case err != nil && resource == "nodes":
		// If the first question fails, the others will fail as well.
		return fmt.Errorf("read the nodes of the cluster: %w", err)
	case err != nil:
		f.miss(whatif.Missing{Resource: resource, Why: err.Error()})
		return nil
	}
	shared, err := factory.ForResource(kind.GroupVersionResource)
	if err != nil {
		return fmt.Errorf("follow %s: %w", resource, err)
	}
	informer := shared.Informer()
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			f.miss(whatif.Missing{Resource: resource, Forbidden: true,
				Why: fmt.Sprintf("the right to watch %s is missing, or was taken away; what is shown of them is old", resource)})
			f.wake()
		}
	}); err != nil {
		return fmt.Errorf("follow %s: %w", resource, err)
	}
	wake := func(any) { f.wake() }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(any, any) { f.wake() },
	}); err != nil {
		return fmt.Errorf("follow %s: %w", resource, err)
	}
	f.stores = append(f.stores, informer.GetStore())
	return nil
}

func (f *follower) miss(m whatif.Missing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.missing == nil {
		f.missing = make(map[string]whatif.Missing)
	}
	f.missing[m.Resource] = m
}

func (f *follower) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run updates the map after changes, with pauses.
func (f *follower) run(ctx context.Context, shown *Map) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		}
		start := time.Now()
		if err := shown.Show(f.snapshot()); err != nil {
			return err
		}
		rest := time.NewTimer(max(pace, restFactor*time.Since(start)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return nil
		case <-rest.C:
		}
	}
}

func (f *follower) snapshot() *whatif.Snapshot {
	var objects whatif.Objects
	for _, store := range f.stores {
		for _, object := range store.List() {
			if one, is := object.(runtime.Object); is {
				objects.Add(one)
			}
		}
	}
	f.mu.Lock()
	for _, kind := range whatif.Kinds {
		if missing, is := f.missing[kind.Name()]; is {
			objects.Missing = append(objects.Missing, missing)
		}
	}
	f.mu.Unlock()
	options := whatif.Options{}
	if f.resolver != nil {
		options.Resolve = f.resolver.Resolve
	}
	return whatif.New(objects, options)
}

// trim removes fields that take memory and are not shown.
func trim(object any) (any, error) {
	if accessor, is := object.(metav1.Object); is {
		accessor.SetManagedFields(nil)
	}
	switch o := object.(type) {
	case *v1.Pod:
		for _, containers := range [][]v1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range containers {
				c := &containers[i]
				containers[i] = v1.Container{Name: c.Name, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
			}
		}
		o.Annotations, o.Status.ContainerStatuses, o.Status.InitContainerStatuses = nil, nil, nil
	case *v1.Node:
		o.Annotations, o.Status.Images = nil, nil
	}
	return object, nil
}
