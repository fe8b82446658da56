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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha"
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

// tell calls the registered functions after the change of a class or of parameters, or with nil of anything.
func (r *Resolver) tell(change any) {
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
		followParameters(ctx, r, classResource, r.known.Classes, clientOf[v1alpha2.ResourceClass](r.alpha2, alpha2ClassResource, ""))
	})
	all.Go(func() {
		followParameters(ctx, r, classParametersResource, r.known.ClassParameters, clientOf[v1alpha2.ResourceClassParameters](r.alpha2, classParametersResource, ""))
	})
	all.Go(func() {
		followParameters(ctx, r, claimParametersResource, r.known.ClaimParameters, clientOf[v1alpha2.ResourceClaimParameters](r.alpha2, claimParametersResource, ""))
	})
	all.Wait()
}

// followParameters keeps a store up to date while the server has a resource in v1alpha2 and claims are used in that
// version. Servers before 1.30 have no parameters.
func followParameters[T any, P object[T]](ctx context.Context, r *Resolver, resource string, store cache.Store, client *gentype.ClientWithList[P, *v1alpha.List[T]]) {
	f := feed{store, r, resource}
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
			}, P(new(T)), f, cache.ReflectorOptions{Name: resource + " of v1alpha2"})
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

// feed is a store of classes or parameters that tells a Resolver of changes. It does not tell of removed objects, which
// help no waiting pod.
type feed struct {
	cache.Store
	resolver *Resolver
	resource string
}

func (f feed) noteRead() {
	f.resolver.noteRead(f.resource)
	f.resolver.tell(nil)
}

// Add implements cache.ReflectorStore.
func (f feed) Add(object any) error {
	err := f.Store.Add(object)
	f.resolver.tell(object)
	return err
}

// Update implements cache.ReflectorStore.
func (f feed) Update(object any) error { return f.Add(object) }

// Replace implements cache.ReflectorStore.
func (f feed) Replace(objects []any, version string) error {
	err := f.Store.Replace(objects, version)
	f.noteRead()
	return err
}

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
