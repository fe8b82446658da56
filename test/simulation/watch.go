package simulation

import (
	"bytes"
	"io"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// watch is the body of one watch request. Events become readable after the lag.
type watch struct {
	connection *Connection
	s          *store
	c          *collection
	selects    func(*object) bool
	binary     bool
	offered    []timed
	wake       chan struct{}
	closed     chan struct{}
	buffer     bytes.Buffer
}

// timed is an event with the time from which it may be read.
type timed struct {
	at     time.Time
	kind   string
	object *object
}

func newWatch(connection *Connection, c *collection, selects func(*object) bool, binarily bool) *watch {
	return &watch{connection: connection, s: connection.server.store, c: c, selects: selects, binary: binarily && scheme.Scheme.Recognizes(c.resource.kind()), wake: make(chan struct{}, 1), closed: make(chan struct{})}
}

// offer queues an event. The store's mutex is held.
func (w *watch) offer(e event) {
	was, now := e.was != nil && w.selects(e.was), e.kind != "DELETED" && w.selects(e.now)
	kind, brings := "", e.now
	switch {
	case now && was:
		kind = "MODIFIED"
	case now:
		kind = "ADDED"
	case was:
		kind = "DELETED"
		if e.kind != "DELETED" { // The object is no longer selected. The watch gets its last selected state, as from kube-apiserver.
			brings = e.was.at(e.version)
		}
	default:
		return
	}
	w.queue(kind, brings)
}

// bookmark queues the event that follows the initial events. The store's mutex is held.
func (w *watch) bookmark(version int64) {
	r := w.c.resource
	b := &object{fields: map[string]any{"kind": r.Kind, "apiVersion": groupVersion(r.Group, r.Version), "metadata": map[string]any{
		"resourceVersion": strconv.FormatInt(version, 10), "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
	}}}
	w.queue("BOOKMARK", b)
}

// contentType returns the content type that tells the client the encoding.
func (w *watch) contentType() string {
	if w.binary {
		return runtime.ContentTypeProtobuf + ";stream=watch"
	}
	return runtime.ContentTypeJSON
}

// queue makes an event readable after the lag, and after earlier events.
func (w *watch) queue(kind string, o *object) {
	eventLine(kind, o, w.c.resource, w.binary) // While the version before is known, less has to be decoded.
	at := time.Now().Add(max(w.connection.lag(), w.connection.stalls(w.c.resource.Name)))
	if n := len(w.offered); n > 0 && w.offered[n-1].at.After(at) {
		at = w.offered[n-1].at
	}
	w.offered = append(w.offered, timed{at, kind, o})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next returns the next readable line, or the time to wait for it: 0 if the time is unknown.
func (w *watch) next() ([]byte, time.Duration) {
	w.s.mutex.Lock()
	defer w.s.mutex.Unlock()
	if len(w.offered) == 0 {
		return nil, 0
	}
	first := w.offered[0]
	if wait := time.Until(first.at); wait > 0 {
		return nil, wait
	}
	w.offered = w.offered[1:]
	return eventLine(first.kind, w.connection.clock.read(first.object), w.c.resource, w.binary), 0
}

// Read implements io.Reader.
func (w *watch) Read(p []byte) (int, error) {
	for w.buffer.Len() == 0 {
		w.connection.whileFrozen()
		if paused := w.connection.whilePaused(); paused != nil {
			select {
			case <-paused:
			case <-w.closed:
				return 0, io.EOF
			}
		}
		line, wait := w.next()
		if line != nil {
			if w.connection.cuts() {
				w.Close()
				return 0, io.ErrUnexpectedEOF
			}
			w.buffer.Write(line)
			continue
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-w.closed:
			return 0, io.EOF
		case <-w.wake:
		case <-timer:
		}
	}
	return w.buffer.Read(p)
}

// Close implements io.Closer.
func (w *watch) Close() error {
	w.s.mutex.Lock()
	defer w.s.mutex.Unlock()
	w.end()
	return nil
}

// end ends the watch. The store's mutex is held.
func (w *watch) end() {
	if _, ok := w.c.watches[w]; ok {
		delete(w.c.watches, w)
		close(w.closed)
		w.connection.forget(w)
	}
}
