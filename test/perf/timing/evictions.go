package timing

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Evictions counts, from events about pods, who of the measured namespace was bound and who of
// the others was evicted for them. It is safe for concurrent use.
type Evictions struct {
	namespace string

	mutex          sync.Mutex
	bound, victims map[types.UID]bool
	lastBound      time.Time
}

// NewEvictions makes a count for measured pods of a namespace. In others, nobody deletes pods
// but the scheduler.
func NewEvictions(namespace string) *Evictions {
	return &Evictions{namespace: namespace, bound: make(map[types.UID]bool), victims: make(map[types.UID]bool)}
}

// Bound is how many measured pods were bound, and when the last one was.
func (e *Evictions) Bound() (count int64, last time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return int64(len(e.bound)), e.lastBound
}

// Victims is how many other pods that were bound are gone or going.
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
