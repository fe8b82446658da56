package api

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// absent is the backend of a resource that the server has in no version: no objects exist, and none can be created.
type absent[T, L any] struct {
	served *Served
	name   string
}

func (a absent[T, L]) Create(context.Context, *T, metav1.CreateOptions) (*T, error) {
	return nil, newNotServed(a.name)
}

func (a absent[T, L]) Update(context.Context, *T, metav1.UpdateOptions) (*T, error) {
	return nil, newNotServed(a.name)
}

func (a absent[T, L]) UpdateStatus(context.Context, *T, metav1.UpdateOptions) (*T, error) {
	return nil, newNotServed(a.name)
}

func (a absent[T, L]) Delete(context.Context, string, metav1.DeleteOptions) error {
	return newNotServed(a.name)
}

func (a absent[T, L]) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return nil
}

func (a absent[T, L]) Get(context.Context, string, metav1.GetOptions) (*T, error) {
	return nil, newNotServed(a.name)
}

func (a absent[T, L]) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*T, error) {
	return nil, newNotServed(a.name)
}

func (a absent[T, L]) List(context.Context, metav1.ListOptions) (*L, error) { return new(L), nil }

// Watch returns a watch without events. As soon as the resource appears, the watch ends with 410 Gone, so that
// clients list again.
func (a absent[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		return nil, apierrors.NewBadRequest("a list of " + a.name + " cannot be watched here, because the API server does not have them; list, then watch")
	}
	w := &silentWatch{events: make(chan watch.Event, 1), stopped: make(chan struct{})}
	go w.run(ctx, a.served, a.name)
	return w, nil
}

type silentWatch struct {
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func (w *silentWatch) Stop() { w.once.Do(func() { close(w.stopped) }) }

func (w *silentWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *silentWatch) run(ctx context.Context, served *Served, resource string) {
	defer close(w.events)
	for {
		version, changed := served.current(resource)
		if version != None {
			w.events <- watch.Event{Type: watch.Error, Object: newExpired(resource)} // The channel has room for one event.
			return
		}
		select {
		case <-changed:
		case <-w.stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}
