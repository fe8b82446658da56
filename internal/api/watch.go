package api

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// convertedWatch forwards the events of another watch. It converts all objects, including those of bookmarks, but not
// errors.
type convertedWatch[T, O any] struct {
	source  watch.Interface
	convert func(*O) (*T, error)
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once
}

func newConvertedWatch[T, O any](source watch.Interface, convert func(*O) (*T, error)) watch.Interface {
	w := &convertedWatch[T, O]{
		source:  source,
		convert: convert,
		events:  make(chan watch.Event),
		stopped: make(chan struct{}),
	}
	go w.run()
	return w
}

// Stop implements watch.Interface. The events may have no reader any more.
func (w *convertedWatch[T, O]) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.source.Stop()
	})
}

// ResultChan implements watch.Interface.
func (w *convertedWatch[T, O]) ResultChan() <-chan watch.Event { return w.events }

func (w *convertedWatch[T, O]) run() {
	defer close(w.events)
	defer w.source.Stop()
	for event := range w.source.ResultChan() {
		event = w.converted(event)
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		}
	}
}

// converted returns an error event if the object cannot be converted. Omitting the object would hide it forever;
// after an error, clients list again.
func (w *convertedWatch[T, O]) converted(event watch.Event) watch.Event {
	old, ok := any(event.Object).(*O)
	if !ok {
		return event
	}
	object, err := w.convert(old)
	if err == nil {
		if typed, ok := any(object).(runtime.Object); ok {
			event.Object = typed
			return event
		}
		err = fmt.Errorf("%T is no object of the API; this is a bug", object)
	}
	status := apierrors.NewInternalError(err).Status()
	return watch.Event{Type: watch.Error, Object: &status}
}
