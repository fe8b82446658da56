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
// shows those of one namespace, and the map says so. progress, if set, is called with a description of what Follow
// waits for.
func Follow(ctx context.Context, client kubernetes.Interface, namespace string, shown *Map, progress func(string)) error {
	f := &follower{client: client, namespace: namespace, changed: make(chan struct{}, 1)}
	f.everywhere = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	f.within = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim), informers.WithNamespace(namespace))
	for _, kind := range kinds {
		if err := f.begin(ctx, kind); err != nil {
			return err
		}
	}
	f.everywhere.Start(ctx.Done())
	f.within.Start(ctx.Done())
	if progress != nil {
		progress("reading the cluster")
	}
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

// kind is a kind of objects that the map follows.
type kind struct {
	resource   string
	namespaced bool
	// probe checks whether the objects may be listed.
	probe func(context.Context, kubernetes.Interface, string) error
	// informer returns the informer of a factory; collect adds its objects to the others.
	informer func(informers.SharedInformerFactory) cache.SharedIndexInformer
	collect  func(cache.Indexer, *whatif.Objects)
}

// one limits the probing lists to one object.
var one = metav1.ListOptions{Limit: 1}

var kinds = []kind{
	{"nodes", false,
		func(ctx context.Context, c kubernetes.Interface, _ string) error {
			return second(c.CoreV1().Nodes().List(ctx, one))
		},
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Core().V1().Nodes().Informer()
		},
		func(from cache.Indexer, o *whatif.Objects) { o.Nodes = listed[v1.Node](from) }},
	{"pods", true,
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			return second(c.CoreV1().Pods(ns).List(ctx, one))
		},
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Core().V1().Pods().Informer()
		},
		func(from cache.Indexer, o *whatif.Objects) { o.Pods = append(o.Pods, listed[v1.Pod](from)...) }},
	{"resourceslices.resource.k8s.io", false,
		func(ctx context.Context, c kubernetes.Interface, _ string) error {
			return second(c.ResourceV1().ResourceSlices().List(ctx, one))
		},
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Resource().V1().ResourceSlices().Informer()
		},
		func(from cache.Indexer, o *whatif.Objects) { o.Slices = listed[resourceapi.ResourceSlice](from) }},
	{"resourceclaims.resource.k8s.io", true,
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			return second(c.ResourceV1().ResourceClaims(ns).List(ctx, one))
		},
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Resource().V1().ResourceClaims().Informer()
		},
		func(from cache.Indexer, o *whatif.Objects) { o.Claims = listed[resourceapi.ResourceClaim](from) }},
	{"resourceclaimtemplates.resource.k8s.io", true,
		func(ctx context.Context, c kubernetes.Interface, ns string) error {
			return second(c.ResourceV1().ResourceClaimTemplates(ns).List(ctx, one))
		},
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Resource().V1().ResourceClaimTemplates().Informer()
		},
		func(from cache.Indexer, o *whatif.Objects) {
			o.Templates = listed[resourceapi.ResourceClaimTemplate](from)
		}},
	{"deviceclasses.resource.k8s.io", false,
		func(ctx context.Context, c kubernetes.Interface, _ string) error {
			return second(c.ResourceV1().DeviceClasses().List(ctx, one))
		},
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Resource().V1().DeviceClasses().Informer()
		},
		func(from cache.Indexer, o *whatif.Objects) { o.Classes = listed[resourceapi.DeviceClass](from) }},
	{"devicetaintrules.resource.k8s.io", false,
		func(ctx context.Context, c kubernetes.Interface, _ string) error {
			return second(c.ResourceV1().DeviceTaintRules().List(ctx, one))
		},
		func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
			return f.Resource().V1().DeviceTaintRules().Informer()
		},
		func(from cache.Indexer, o *whatif.Objects) { o.TaintRules = listed[resourceapi.DeviceTaintRule](from) }},
}

// second returns the error of a call whose result does not matter.
func second[T any](_ T, err error) error { return err }

func listed[T any](from cache.Indexer) []*T {
	all := from.List()
	result := make([]*T, 0, len(all))
	for _, object := range all {
		if typed, is := object.(*T); is {
			result = append(result, typed)
		}
	}
	return result
}

// follower holds the objects of the cluster.
type follower struct {
	client             kubernetes.Interface
	namespace          string
	everywhere, within informers.SharedInformerFactory
	sources            []followed
	resolver           *api.Resolver
	changed            chan struct{}

	mu      sync.Mutex
	missing map[string]whatif.Missing
}

type followed struct {
	kind  kind
	store cache.Indexer
}

// begin follows a kind of objects, as far as it may be read.
func (f *follower) begin(ctx context.Context, k kind) error {
	factory := f.everywhere
	err := k.probe(ctx, f.client, metav1.NamespaceAll)
	switch {
	case apierrors.IsForbidden(err) && k.namespaced && f.namespace != "" && k.probe(ctx, f.client, f.namespace) == nil:
		factory = f.within
		f.miss(whatif.Missing{Resource: k.resource, Forbidden: true, Namespace: f.namespace,
			Why: fmt.Sprintf("the right to list %s in all namespaces is missing; only those of namespace %s are known", k.resource, f.namespace)})
	case apierrors.IsForbidden(err):
		f.miss(whatif.Missing{Resource: k.resource, Forbidden: true, Why: fmt.Sprintf("the right to list %s is missing", k.resource)})
		return nil
	case err != nil && k.resource == "nodes":
		// If the first question fails, the others will fail as well.
		return fmt.Errorf("read the nodes of the cluster: %w", err)
	case err != nil:
		f.miss(whatif.Missing{Resource: k.resource, Why: err.Error()})
		return nil
	}
	informer := k.informer(factory)
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			f.miss(whatif.Missing{Resource: k.resource, Forbidden: true,
				Why: fmt.Sprintf("the right to watch %s is missing, or was taken away; what is shown of them is old", k.resource)})
			f.wake()
		}
	}); err != nil {
		return fmt.Errorf("follow %s: %w", k.resource, err)
	}
	wake := func(any) { f.wake() }
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(any, any) { f.wake() },
	}); err != nil {
		return fmt.Errorf("follow %s: %w", k.resource, err)
	}
	f.sources = append(f.sources, followed{k, informer.GetIndexer()})
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
	for _, source := range f.sources {
		source.kind.collect(source.store, &objects)
	}
	f.mu.Lock()
	for _, k := range kinds {
		if missing, is := f.missing[k.resource]; is {
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
