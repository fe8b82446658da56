package binding

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Watchers wakes waits when one of their objects has changed, so that they check it again. It does not say what has
// changed nor how often. The zero value has no watchers. It is safe for concurrent use.
type Watchers struct {
	count    atomic.Int64 // of entries in byObject; 0 is the usual case
	mutex    sync.Mutex
	byObject map[types.UID][]chan struct{}
}

// watch returns a channel that receives after any of the objects has changed. leave ends the watch.
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

// Idle reports whether there are no watchers.
func (w *Watchers) Idle() bool { return w.count.Load() == 0 }

// Tell wakes all watchers of the object. It does not block.
func (w *Watchers) Tell(object types.UID) {
	if w.Idle() {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, channel := range w.byObject[object] {
		select {
		case channel <- struct{}{}:
		default: // The watcher has not received the previous signal yet.
		}
	}
}
