package scenario

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Cache is a Source that reads from informers: cheap enough for many reads a second, and slightly behind the API
// server.
type Cache struct {
	factory informers.SharedInformerFactory
}

// NewCache starts informers and returns when they are filled. They run until ctx ends. The recorder, if not nil, sees
// every pod, claim and event.
func NewCache(ctx context.Context, client kubernetes.Interface, recorder *Recorder) (*Cache, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	claims := factory.Resource().V1().ResourceClaims().Informer()
	events := factory.Core().V1().Events().Informer()
	factory.Resource().V1().ResourceSlices().Informer()
	if recorder != nil {
		if _, err := pods.AddEventHandler(onEach(recorder.podSeen)); err != nil {
			return nil, fmt.Errorf("watch pods: %w", err)
		}
		if _, err := claims.AddEventHandler(onEach(recorder.claimSeen)); err != nil {
			return nil, fmt.Errorf("watch claims: %w", err)
		}
		if _, err := events.AddEventHandler(onEach(recorder.eventSeen)); err != nil {
			return nil, fmt.Errorf("watch events: %w", err)
		}
	}
	factory.Start(ctx.Done())
	for informer, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("the informer of %v did not get its first list: %w", informer, context.Cause(ctx))
		}
	}
	return &Cache{factory: factory}, nil
}

// onEach calls seen for each new state of an object. Deletions are left out.
func onEach[T any](seen func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen(object.(T)) },
		UpdateFunc: func(_, object any) { seen(object.(T)) },
	}
}

// Snapshot returns the current objects of the informers.
func (c *Cache) Snapshot(_ context.Context, namespace string) (*Snapshot, error) {
	pods, err := c.factory.Core().V1().Pods().Lister().Pods(namespace).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("read pods of namespace %s: %w", namespace, err)
	}
	claims, err := c.factory.Resource().V1().ResourceClaims().Lister().ResourceClaims(namespace).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("read claims of namespace %s: %w", namespace, err)
	}
	events, err := c.factory.Core().V1().Events().Lister().Events(namespace).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("read events of namespace %s: %w", namespace, err)
	}
	slices, err := c.factory.Resource().V1().ResourceSlices().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("read resource slices: %w", err)
	}
	return &Snapshot{Namespace: namespace, Pods: pods, Claims: claims, Events: events, Slices: slices}, nil
}

var (
	_ Source = (*Cache)(nil)
	_ Source = LiveSource{}
)
