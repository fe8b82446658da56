package bindingcondition

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Watchers tells those who wait for something about certain objects when one of them has
// changed, so that they look again. It says neither what has changed nor how often. The
// zero value has nobody to tell. It is safe for concurrent use.
type Watchers struct {
	count    atomic.Int64 // of entries in byObject; 0 is the usual case
	mutex    sync.Mutex
	byObject map[types.UID][]chan struct{}
}

// watch returns a channel that has something to receive after any of the objects has
// changed, from now on. The function ends it.
func (w *Watchers) watch(objects ...types.UID) (changed <-chan struct{}, leave func()) {
	channel := make(chan struct{}, 1)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.byObject == nil {
		w.byObject = make(map[types.UID][]chan struct{})
	}
	for _, object := range objects {
		w.byObject[object] = append(w.byObject[object], channel)
	}
	w.count.Store(int64(len(w.byObject)))
	return channel, func() { w.leave(channel, objects) }
}

func (w *Watchers) leave(channel chan struct{}, objects []types.UID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, object := range objects {
		others := slices.DeleteFunc(w.byObject[object], func(other chan struct{}) bool { return other == channel })
		if len(others) == 0 {
			delete(w.byObject, object)
		} else {
			w.byObject[object] = others
		}
	}
	w.count.Store(int64(len(w.byObject)))
}

// Idle reports whether nobody watches anything.
func (w *Watchers) Idle() bool { return w.count.Load() == 0 }

// Tell tells all who watch the object. It does not block.
func (w *Watchers) Tell(object types.UID) {
	if w.Idle() {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, channel := range w.byObject[object] {
		select {
		case channel <- struct{}{}:
		default: // It has not looked yet.
		}
	}
}
