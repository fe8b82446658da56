package informer

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Event is a change of an object. The informer's store has the change already.
type Event[T any] struct {
	// Before is nil if the object is new, After if it is gone. Both have the same UID.
	Before, After *T
	// Initial is set for objects that existed when the informer started.
	Initial bool
	// Missed is set if the watch missed the deletion: the object may have changed after Before.
	Missed bool
}

// Latest returns the newer of the two states.
func (e Event[T]) Latest() *T {
	if e.After != nil {
		return e.After
	}
	return e.Before
}

// Follow calls changed for each event of an informer, one at a time. If an object was deleted and created again while the watch was
// interrupted, the informer shows one update; changed gets a deletion that was missed, and a creation.
func Follow[T any](informer cache.SharedInformer, changed func(Event[T])) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after, ok := obj.(*T); ok {
				changed(Event[T]{After: after, Initial: initial})
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, was := oldObj.(*T)
			after, is := newObj.(*T)
			switch {
			case was && is && Replaced(oldObj, newObj):
				changed(Event[T]{Before: before, Missed: true})
				changed(Event[T]{After: after})
			case was && is:
				changed(Event[T]{Before: before, After: after})
			}
		},
		DeleteFunc: func(obj any) {
			tombstone, missed := obj.(cache.DeletedFinalStateUnknown)
			if missed {
				obj = tombstone.Obj
			}
			if before, ok := obj.(*T); ok {
				changed(Event[T]{Before: before, Missed: missed})
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", *new(T), err)
	}
	return registration, nil
}

// Missed returns what a handler gets for an object whose deletion the watch missed.
func Missed(last any) cache.DeletedFinalStateUnknown {
	key, _ := cache.MetaNamespaceKeyFunc(last) // The store has the object by this key.
	return cache.DeletedFinalStateUnknown{Key: key, Obj: last}
}

// Replaced reports whether two states under one name are of different objects.
func Replaced(before, after any) bool {
	b, isObject := before.(metav1.Object)
	a, ok := after.(metav1.Object)
	return isObject && ok && b.GetUID() != a.GetUID()
}
