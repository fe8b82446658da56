package informer

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Object returns the object in an informer's store, nil if there is none of that key and type.
func Object[T any](store cache.Store, key string) *T {
	obj, found, err := store.GetByKey(key)
	if err != nil || !found {
		return nil
	}
	typed, _ := obj.(*T)
	return typed
}

// AfterEvents calls refresh after each event about an object, with the object's key in the informer's store.
func AfterEvents(informer cache.SharedInformer, refresh func(key string)) (cache.ResourceEventHandlerRegistration, error) {
	handle := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			refresh(key)
		}
	}
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, obj any) { handle(obj) },
		DeleteFunc: handle,
	})
}

// Versions returns the object before and after an event, nil if there was none.
func Versions[T any](oldObj, newObj any) (before, after *T) {
	if tombstone, ok := oldObj.(cache.DeletedFinalStateUnknown); ok {
		oldObj = tombstone.Obj
	}
	before, _ = oldObj.(*T)
	after, _ = newObj.(*T)
	return before, after
}

// Newer reports whether version a of an object is known to be newer than version b. Of
// versions that are not well-formed nothing is known.
func Newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// AtLeast reports whether version a of an object is known to be as new as version b, or newer.
func AtLeast(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}
