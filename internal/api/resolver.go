package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2"
	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha2/namedresources"
)

// Resolver finds the requests of claims of v1alpha2, which are in other objects. It watches classes and parameters
// while claims are used in that version, and does nothing otherwise. It is safe for concurrent use.
type Resolver struct {
	served *Served
	alpha2 alpha
	known  *v1alpha2.Parameters

	mutex sync.Mutex
	// missing lists the resources whose first list has not arrived.
	missing map[string]bool
	changed []func(concerns func(*resourceapi.ResourceClaim) bool)
}

func newResolver(served *Served, alpha2 alpha) *Resolver {
	return &Resolver{
		served: served, alpha2: alpha2, known: v1alpha2.NewParameters(),
		missing: map[string]bool{classResource: true, classParametersResource: true, claimParametersResource: true},
	}
}

// NewLanguage returns the language of the expressions in claims of v1alpha2, as a selector.Language.
func NewLanguage() namedresources.Language { return namedresources.Language{} }

// ResolverOf returns the resolver for the server behind a client set. Like Of, it is nil for client sets that need
// none.
func ResolverOf(client kubernetes.Interface) *Resolver {
	if c, ok := client.(*clientset); ok {
		return c.resources.resolver
	}
	return nil
}

// Resolve returns the claim with its current requests; for most claims it returns the claim itself. The error names
// the missing objects.
func (r *Resolver) Resolve(claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	if !v1alpha2.IsFrom(claim) {
		return claim, nil
	}
	if unread := r.unread(); len(unread) > 0 {
		return nil, fmt.Errorf("claim %s: %s have not been read from the API server yet; the log of the scheduler says why if this lasts",
			klog.KObj(claim), strings.Join(unread, " and "))
	}
	return r.known.Resolve(claim)
}

// SuitableNodes returns the nodes to which the class restricts a claim without allocation, nil if there is no
// restriction.
func (r *Resolver) SuitableNodes(claim *resourceapi.ResourceClaim) *v1.NodeSelector {
	if !v1alpha2.IsFrom(claim) {
		return nil
	}
	return r.known.SuitableNodes(claim)
}

// unread returns the resources that have not been read yet, by their names in v1alpha2.
func (r *Resolver) unread() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.missing) == 0 {
		return nil
	}
	names := make([]string, 0, len(r.missing))
	for resource := range r.missing {
		names = append(names, nameIn(V1alpha2, resource))
	}
	slices.Sort(names)
	return names
}

// OnChange registers a function that is called whenever Resolve may return another result. Its argument says which
// claims are concerned. It must not block.
func (r *Resolver) OnChange(changed func(concerns func(*resourceapi.ResourceClaim) bool)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.changed = append(r.changed, changed)
}

func (r *Resolver) tell(change v1alpha2.Change) {
	r.mutex.Lock()
	changed := r.changed
	r.mutex.Unlock()
	for _, tell := range changed {
		tell(func(claim *resourceapi.ResourceClaim) bool { return r.known.Concerns(change, claim) })
	}
}

// noteRead records that the first list of a resource has arrived.
func (r *Resolver) noteRead(resource string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.missing, resource)
}

// run watches classes and parameters until the context ends.
func (r *Resolver) run(ctx context.Context) {
	if r.alpha2.client == nil {
		return // There is no server.
	}
	var all sync.WaitGroup
	all.Go(func() {
		followParameters(ctx, r, classResource, feed[*v1alpha2.ResourceClass]{
			set:    r.known.SetClass,
			remove: func(o metav1.Object) { r.known.DeleteClass(o.GetName()) },
			change: func(class *v1alpha2.ResourceClass) v1alpha2.Change { return v1alpha2.Change{Class: class} },
		}, clientOf[v1alpha2.ResourceClass, v1alpha2.ResourceClassList](r.alpha2, alpha2ClassResource, ""))
	})
	all.Go(func() {
		followParameters(ctx, r, classParametersResource, feed[*v1alpha2.ResourceClassParameters]{
			set:    r.known.SetClassParameters,
			remove: func(o metav1.Object) { r.known.DeleteClassParameters(o.GetNamespace(), o.GetName()) },
			change: func(p *v1alpha2.ResourceClassParameters) v1alpha2.Change { return v1alpha2.Change{ClassParameters: p} },
		}, clientOf[v1alpha2.ResourceClassParameters, v1alpha2.ResourceClassParametersList](r.alpha2, classParametersResource, ""))
	})
	all.Go(func() {
		followParameters(ctx, r, claimParametersResource, feed[*v1alpha2.ResourceClaimParameters]{
			set:    r.known.SetClaimParameters,
			remove: func(o metav1.Object) { r.known.DeleteClaimParameters(o.GetNamespace(), o.GetName()) },
			change: func(p *v1alpha2.ResourceClaimParameters) v1alpha2.Change { return v1alpha2.Change{ClaimParameters: p} },
		}, clientOf[v1alpha2.ResourceClaimParameters, v1alpha2.ResourceClaimParametersList](r.alpha2, claimParametersResource, ""))
	})
	all.Wait()
}

// listerWatcher is the part of a client that followParameters needs.
type listerWatcher[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// followParameters watches a resource while the server has it in v1alpha2 and claims are used in that version.
// Servers before 1.30 have no parameters.
func followParameters[T feedObject, L runtime.Object](ctx context.Context, r *Resolver, resource string, f feed[T], client listerWatcher[L]) {
	f.resolver, f.resource, f.known = r, resource, make(map[cache.ObjectName]T)
	var object T
	for ctx.Err() == nil {
		claims, changed := r.served.current(claimResource)
		version := r.served.Version(resource)
		following, stop := context.WithCancel(ctx)
		var reading sync.WaitGroup
		switch {
		case claims == V1alpha2 && version == V1alpha2:
			reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					return client.List(ctx, o)
				},
				WatchFuncWithContext: client.Watch,
			}, object, f, cache.ReflectorOptions{Name: resource + " of v1alpha2"})
			reading.Go(func() { reflector.RunWithContext(following) })
		case claims == V1alpha2:
			f.noteRead()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
		reading.Wait()
	}
}

type feedObject interface {
	comparable
	runtime.Object
	metav1.Object
}

// feed is a reflector's store that passes all objects to a Resolver.
type feed[T feedObject] struct {
	resolver *Resolver
	resource string
	set      func(T)
	remove   func(metav1.Object)
	change   func(T) v1alpha2.Change
	// known has the objects that were set and not removed.
	known map[cache.ObjectName]T
}

var _ cache.ReflectorStore = feed[*v1alpha2.ResourceClass]{}

func (f feed[T]) noteRead() {
	f.resolver.noteRead(f.resource)
	f.resolver.tell(v1alpha2.Change{})
}

// Add implements cache.ReflectorStore.
func (f feed[T]) Add(object any) error {
	if typed, ok := f.take(object); ok {
		f.resolver.tell(f.change(typed))
	}
	return nil
}

func (f feed[T]) take(object any) (T, bool) {
	typed, ok := object.(T)
	if ok {
		f.known[cache.MetaObjectToName(typed)] = typed
		f.set(typed)
	}
	return typed, ok
}

// Update implements cache.ReflectorStore.
func (f feed[T]) Update(object any) error { return f.Add(object) }

// Delete implements cache.ReflectorStore. It notifies no one, because a removed object helps no waiting pod.
func (f feed[T]) Delete(object any) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return fmt.Errorf("delete %s: %w", f.resource, err)
	}
	delete(f.known, cache.MetaObjectToName(accessor))
	f.remove(accessor)
	return nil
}

// Replace implements cache.ReflectorStore.
func (f feed[T]) Replace(objects []any, _ string) error {
	kept := make(map[cache.ObjectName]bool, len(objects))
	for _, object := range objects {
		if typed, ok := f.take(object); ok {
			kept[cache.MetaObjectToName(typed)] = true
		}
	}
	for name, object := range f.known {
		if !kept[name] {
			if err := f.Delete(object); err != nil {
				return err
			}
		}
	}
	f.noteRead()
	return nil
}

// Resync implements cache.ReflectorStore.
func (f feed[T]) Resync() error { return nil }

// readInterval is the polling interval of WaitUntilRead.
const readInterval = 20 * time.Millisecond

// WaitUntilRead waits until Resolve has all objects that it needs, which are none unless claims are used in v1alpha2.
// An error comes from the context.
func (r *Resolver) WaitUntilRead(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, readInterval, true, func(context.Context) (bool, error) {
		return r.served.Version(claimResource) != V1alpha2 || len(r.unread()) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s are read: %w", strings.Join(r.unread(), " and "), err)
	}
	return nil
}
