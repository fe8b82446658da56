package timing

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Evictions counts, from events, the pods of the measured namespace that were bound and the other
// pods that were evicted for them. It is safe for concurrent use.
type Evictions struct {
	namespace string

	mutex          sync.Mutex
	bound, victims map[types.UID]bool
	lastBound      time.Time
}

// NewEvictions makes a count for the measured pods of a namespace. In other namespaces, only the
// scheduler may delete pods.
func NewEvictions(namespace string) *Evictions {
	return &Evictions{namespace: namespace, bound: make(map[types.UID]bool), victims: make(map[types.UID]bool)}
}

// Bound returns the number of measured pods that were bound, and the time of the last binding.
func (e *Evictions) Bound() (count int64, last time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return int64(len(e.bound)), e.lastBound
}

// Victims returns the number of other pods that were bound and are deleted or being deleted.
func (e *Evictions) Victims() int64 {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return int64(len(e.victims))
}

// OnAdd implements cache.ResourceEventHandler.
func (e *Evictions) OnAdd(object any, _ bool) { e.saw(object, false) }

// OnUpdate implements cache.ResourceEventHandler.
func (e *Evictions) OnUpdate(_, object any) { e.saw(object, false) }

// OnDelete implements cache.ResourceEventHandler.
func (e *Evictions) OnDelete(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	e.saw(object, true)
}

func (e *Evictions) saw(object any, gone bool) {
	pod, ok := object.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	switch {
	case pod.Namespace == e.namespace:
		if !e.bound[pod.UID] {
			e.bound[pod.UID], e.lastBound = true, time.Now()
		}
	case gone || pod.DeletionTimestamp != nil:
		e.victims[pod.UID] = true
	}
}
