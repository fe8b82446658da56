package crd

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// ErrNotInstalled is the reason for missing PodGroups on a server without their CustomResourceDefinition.
var ErrNotInstalled = errors.New("the API server has no such resource; install its CustomResourceDefinition (kubectl apply -k manifests/pod-groups)")

// Groups holds the PodGroups of the cluster. It is safe for concurrent use. A process needs one.
type Groups struct {
	// resource has no client without a server.
	resource informer.Optional
	// asked receives the "namespace/name" of a PodGroup that was requested although the resource is not installed.
	asked     chan string
	listeners listeners

	mutex sync.RWMutex
	// store holds an entry for each PodGroup, by "namespace/name"; nil if the resource is not followed.
	store cache.Store
	// synced reports whether the store has received a complete list.
	synced func() bool
	// problem is the error of the last request, nil if it succeeded. While it is set, store may lack PodGroups that
	// exist.
	problem error
}

// New returns empty Groups. config is the scheduler's own (its handle's KubeConfig). If it is nil, for tests, Set
// provides the PodGroups.
func New(config *rest.Config) (*Groups, error) {
	if config == nil {
		return newGroups(informer.Optional{}), nil
	}
	served, err := informer.NewOptional(config, resource)
	return newGroups(served), err
}

func newGroups(served informer.Optional) *Groups {
	return &Groups{resource: served, asked: make(chan string, 1),
		listeners: listeners{told: make(map[string]*v1alpha1.PodGroup)}}
}

// OnChange calls a function for each existing PodGroup, and after each change, when Get returns the new state. All
// functions are called one after the other. They may call Get, but not OnChange. before is the state of the previous
// call, nil for a new PodGroup; after is nil for a deleted one. If a PodGroup was deleted and created again, both may
// be set, with different UIDs. A PodGroup for which Get returns an error, because of an invalid field, counts as
// deleted.
func (g *Groups) OnChange(changed func(before, after *v1alpha1.PodGroup)) { g.listeners.add(changed) }

// HasSynced reports whether a complete list was received, or the server has no such resource. It is a
// cache.InformerSynced. While the scheduler may not list PodGroups, it returns false.
func (g *Groups) HasSynced() bool {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	return errors.Is(g.problem, ErrNotInstalled) || g.store != nil && g.synced()
}

// Installed reports whether the server had the resource at the last look.
func (g *Groups) Installed() bool {
	g.mutex.RLock()
	defer g.mutex.RUnlock()
	return g.store != nil
}

// Get returns a PodGroup, which must not be modified. The error says why there is none, or why that is unknown, and
// what to do; it is ErrNotInstalled if the server has no PodGroups at all.
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
		default: // Run has not received the previous one yet.
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

// Set replaces the PodGroups. It is for tests without a server.
func (g *Groups) Set(groups ...*v1alpha1.PodGroup) {
	store, byKey := cache.NewStore(cache.MetaNamespaceKeyFunc), make(map[string]*v1alpha1.PodGroup)
	for _, group := range groups {
		_ = store.Add(newEntry(group)) // Add fails only without a key, and a group has one.
		byKey[group.Namespace+"/"+group.Name] = group
	}
	g.use(store, func() bool { return true })
	g.listeners.tellAll(byKey)
}

// use sets the store that Get reads; nil if there are no PodGroups.
func (g *Groups) use(store cache.Store, synced func() bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.store, g.synced = store, synced
}

// note stores the outcome of a request, and reports whether it is an error after a success.
func (g *Groups) note(problem error) (news bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	news = problem != nil && g.problem == nil
	g.problem = problem
	return news
}

// NameOf returns the name of the PodGroup in a pod's label, "" if it has none.
func NameOf(pod *v1.Pod) string { return pod.Labels[v1alpha1.PodGroupLabel] }

// KeyOf returns "namespace/name" of the PodGroup in a pod's label, "" if it has none.
func KeyOf(pod *v1.Pod) string {
	name := NameOf(pod)
	if name == "" {
		return ""
	}
	return pod.Namespace + "/" + name
}
