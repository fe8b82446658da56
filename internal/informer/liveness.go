package informer

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Liveness knows whether the watch of a reflector is open. The API server closes watches, for example those that it cannot
// serve fast enough, and the reflector pauses before it opens another one. Who concludes something from silence must know
// that. The zero value is a watch that was never closed. All methods are safe for concurrent use.
type Liveness struct {
	mutex sync.Mutex
	// closed is set while no watch is open; since and until are when the last interruption began and ended.
	closed       bool
	since, until time.Time
	// listing is set while a watch sends all objects before it sends changes.
	listing bool
}

// brief is the time that does not count between two watches. The server ends each watch after some minutes, and the next one
// goes on where it was; the events of an open watch can be as late.
const brief = 50 * time.Millisecond

// Interrupted reports whether the watch is closed at the moment, and when it was last opened again; zero if it was
// never closed for longer than a moment. What was missed may come a little later.
func (l *Liveness) Interrupted() (now bool, until time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.closed, l.until
}

// Replaced must be called when the reflector's store has replaced all objects.
func (l *Liveness) Replaced() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.listing {
		l.open()
	}
}

// Observe has the watches of a source tell when they open and close, and returns the source.
func (l *Liveness) Observe(source *cache.ListWatch) *cache.ListWatch {
	request := source.WatchFuncWithContext
	source.WatchFuncWithContext = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		w, err := request(ctx, options)
		if err != nil {
			l.close()
			return nil, err
		}
		l.began(options.SendInitialEvents != nil)
		return observed{w, l}, nil
	}
	return source
}

// began is called for a watch that the server has accepted.
func (l *Liveness) began(listing bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.listing = listing; !listing {
		l.open()
	}
}

func (l *Liveness) open() {
	if l.closed && time.Since(l.since) > brief {
		l.until = time.Now()
	}
	l.closed, l.listing = false, false
}

func (l *Liveness) close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.closed {
		l.since = time.Now()
	}
	l.closed, l.listing = true, false
}

// observed is a watch that tells when it is closed. The reflector stops a watch that the server has closed.
type observed struct {
	watch.Interface
	liveness *Liveness
}

// Stop implements watch.Interface.
func (o observed) Stop() {
	o.liveness.close()
	o.Interface.Stop()
}

// As returns an object that a reflector passes to its store.
func As[T any](obj any) (*T, error) {
	object, ok := obj.(*T)
	if !ok {
		return nil, fmt.Errorf("expected a %s from the watch, found %T; this is a bug", reflect.TypeFor[T]().Name(), obj)
	}
	return object, nil
}

// Backoff returns the back-off of a reflector for which pods wait: its pauses are shorter than those of informers (up to 30 s).
func Backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Cap: 3 * time.Second, Steps: 10, Factor: 2, Jitter: 1}
}
