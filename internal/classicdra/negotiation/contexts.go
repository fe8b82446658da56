package negotiation

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	apiversions "github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
)

// API is the part of the server's API that the package uses.
type API interface {
	// Contexts returns the contexts of a namespace; "" means all, for reading.
	Contexts(namespace string) apiversions.SchedulingContexts
}

// contextStore has the known PodSchedulingContexts: those of the informer, and newer ones from this process's writes.
type contextStore struct {
	informer cache.SharedIndexInformer

	mutex sync.Mutex
	// written has the server's answers to writes, by namespace and name, until the informer has a state that is as
	// new, or a deletion.
	written map[types.NamespacedName]*apiversions.PodSchedulingContext
}

func newContextStore(api API) *contextStore {
	all := api.Contexts("")
	return &contextStore{
		written: make(map[types.NamespacedName]*apiversions.PodSchedulingContext),
		informer: cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return all.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return all.Watch(ctx, o)
			},
		}, &apiversions.PodSchedulingContext{}, 0, cache.Indexers{}),
	}
}

// follow keeps the store up to date, and passes changes to the function: before is nil for new contexts, after for
// deleted ones.
func (s *contextStore) follow(changed func(before, after *apiversions.PodSchedulingContext)) error {
	_, err := informer.Follow(s.informer, func(event informer.Event[apiversions.PodSchedulingContext]) {
		if event.After != nil {
			s.heard(event.After)
		} else {
			s.forget(types.NamespacedName{Namespace: event.Before.Namespace, Name: event.Before.Name})
		}
		changed(event.Before, event.After)
	})
	return err
}

// get returns the latest known context of a pod; nil if there is none, or if it belongs to another pod of that name.
func (s *contextStore) get(pod *v1.Pod) *apiversions.PodSchedulingContext {
	key := keyOf(pod)
	var known *apiversions.PodSchedulingContext
	if obj, found, err := s.informer.GetIndexer().GetByKey(key.String()); err == nil && found {
		known, _ = obj.(*apiversions.PodSchedulingContext)
	}
	s.mutex.Lock()
	written := s.written[key]
	s.mutex.Unlock()
	if known == nil || newer(written, known) {
		known = written
	}
	if known == nil || !metav1.IsControlledBy(known, pod) {
		return nil
	}
	return known
}

// wrote records the server's answer to a write.
func (s *contextStore) wrote(object *apiversions.PodSchedulingContext) {
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.written[key]; known == nil || newer(object, known) || known.UID != object.UID {
		s.written[key] = object
	}
}

// heard drops a recorded write if the informer's state is as new.
func (s *contextStore) heard(object *apiversions.PodSchedulingContext) {
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if written := s.written[key]; written != nil && !newer(written, object) {
		delete(s.written, key)
	}
}

func (s *contextStore) forget(key types.NamespacedName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.written, key)
}

// newer reports whether a is certainly newer than b.
func newer(a, b *apiversions.PodSchedulingContext) bool {
	return a != nil && informer.Newer(a.ResourceVersion, b.ResourceVersion)
}
