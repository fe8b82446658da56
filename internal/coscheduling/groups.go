package coscheduling

import (
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// ErrNotInstalled is why there are no PodGroups on a server without the CustomResourceDefinition.
var ErrNotInstalled = errors.New("the API server has no such resource; install its CustomResourceDefinition (kubectl apply -k manifests/pod-groups)")

// Groups knows the PodGroups of the cluster. It is safe for concurrent use. A process needs one.
type Groups struct {
	// client and discovery are nil without a server.
	client    dynamic.Interface
	discovery discovery.ServerResourcesInterfaceWithContext
	// asked gets the namespace/name of a PodGroup that somebody wanted although the resource is not installed.
	asked     chan string
	listeners listeners

	mutex sync.RWMutex
	// store has an entry for each PodGroup, by namespace/name; nil if the resource is not followed.
	store cache.Store
	// synced reports whether store has all PodGroups that there were at some time.
	synced func() bool
	// problem is why store may lack PodGroups that exist: the error of the last request, nil if that succeeded.
	problem error
}

// New returns one that knows nothing yet. The configuration is the scheduler's own (its handle's KubeConfig). With
// nil, for tests, it knows what Set says.
func New(config *rest.Config) (*Groups, error) {
	if config == nil {
		return newGroups(nil, nil), nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for PodGroups of %s: %w", v1alpha1.SchemeGroupVersion, err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client to discover PodGroups of %s: %w", v1alpha1.SchemeGroupVersion, err)
	}
	return newGroups(client, discovery.ToServerResourcesInterfaceWithContext(discoverer)), nil
}

func newGroups(client dynamic.Interface, discoverer discovery.ServerResourcesInterfaceWithContext) *Groups {
	return &Groups{client: client, discovery: discoverer, asked: make(chan string, 1),
		listeners: listeners{told: make(map[string]*v1alpha1.PodGroup)}}
}

// OnChange has a function called for each PodGroup that there is, and after changes, when Get already shows them: one
// call after the other, for all functions. It may call Get, but not OnChange. before is what it was told last, nil for a
// new PodGroup, and after is nil for one that is gone. If one was deleted and made again, both may be there, with
// different UIDs. A PodGroup that Get has an error for, because a field is not what it should be, counts as gone.
func (g *Groups) OnChange(changed func(before, after *v1alpha1.PodGroup)) { g.listeners.add(changed) }

// HasSynced reports whether Get has seen all PodGroups that there were at some time, or that the server has no such
// resource. It is a cache.InformerSynced. While the scheduler may not list PodGroups, it returns false.
func (g *Groups) HasSynced() bool {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	return errors.Is(g.problem, ErrNotInstalled) || g.store != nil && g.synced()
}

// Installed reports whether the server had the resource when it was looked for the last time.
func (g *Groups) Installed() bool {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	return g.store != nil
}

// Get returns the PodGroup of that namespace and name, which is not to be modified. The error says why there is
// none, or why that is not known, and what to do; it is ErrNotInstalled if the server has no PodGroups at all.
func (g *Groups) Get(namespace, name string) (*v1alpha1.PodGroup, error) {
	group, err := g.get(namespace + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("PodGroup %s/%s (%s) which the label %s names: %w", namespace, name, v1alpha1.SchemeGroupVersion, v1alpha1.PodGroupLabel, err)
	}
	return group, nil
}

func (g *Groups) get(key string) (*v1alpha1.PodGroup, error) {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	if g.store != nil {
		if e := informer.Object[entry](g.store, key); e != nil {
			return e.group, e.err
		}
	}
	switch {
	case errors.Is(g.problem, ErrNotInstalled):
		select {
		case g.asked <- key:
		default: // Run has yet to hear of another pod.
		}
		return nil, g.problem
	case apierrors.IsForbidden(g.problem):
		return nil, fmt.Errorf("it is not known because the scheduler may not list or watch PodGroups; give it the ClusterRole quartermaster-pod-groups "+
			"(kubectl apply -k manifests/pod-groups): %w", g.problem)
	case g.problem != nil:
		return nil, fmt.Errorf("it is not known because PodGroups cannot be read (it is tried again; see whether the API server is well if this lasts): %w", g.problem)
	case g.store == nil, !g.synced():
		return nil, errors.New("it is not yet known because PodGroups are still being listed; that takes a moment")
	default:
		return nil, errors.New("there is none of that name in the pod's namespace; create it or correct the label")
	}
}

// Set makes Get return these PodGroups and no others. It is for tests without a server.
func (g *Groups) Set(groups ...*v1alpha1.PodGroup) {
	store, byKey := cache.NewStore(cache.MetaNamespaceKeyFunc), make(map[string]*v1alpha1.PodGroup)
	for _, group := range groups {
		_ = store.Add(newEntry(group)) // Only a key could fail, and a group has one.
		byKey[group.Namespace+"/"+group.Name] = group
	}
	g.use(store, func() bool { return true })
	g.listeners.tellAll(byKey)
}

// use makes a store the one that Get looks into; nil if there are no PodGroups to look for.
func (g *Groups) use(store cache.Store, synced func() bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.store, g.synced = store, synced
}

// note keeps the outcome of a request, and reports whether it is an error after a success.
func (g *Groups) note(problem error) (news bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	news = problem != nil && g.problem == nil
	g.problem = problem
	return news
}
