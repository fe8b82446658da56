package proxy

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// errCut ends a watch in the middle of an event.
var errCut = errors.New("the proxy cut the watch")

// eventStream is the body of a watch with faults. It reads whole events from the server.
type eventStream struct {
	body io.Closer
	read reader
	// choose returns the fault for one event, the number of events to repeat and the
	// delay. repeat and delay matter only for the faults that use them.
	choose func() (kind Kind, repeat int, delay time.Duration)
	// ready holds the data that the client has not read yet, failure the error that follows it.
	ready   bytes.Buffer
	failure error
	// recent holds the last events in their order, at most maxRepeated.
	recent []event
	// cutNext is set if only a part of the next event is delivered.
	cutNext bool
}

func newEventStream(body io.Closer, read reader, choose func() (Kind, int, time.Duration)) *eventStream {
	return &eventStream{body: body, read: read, choose: choose}
}

// Read implements io.Reader. It blocks until there is an event.
func (s *eventStream) Read(buffer []byte) (int, error) {
	for s.ready.Len() == 0 {
		if s.failure != nil {
			return 0, s.failure
		}
		s.failure = s.next()
	}
	return s.ready.Read(buffer)
}

// Close implements io.Closer.
func (s *eventStream) Close() error { return s.body.Close() }

// next reads an event and writes the result, with its fault, to ready.
func (s *eventStream) next() error {
	e, err := s.read()
	if err != nil {
		return err
	}
	if s.cutNext {
		s.ready.Write(e.sent[:len(e.sent)/2])
		return errCut
	}
	if !aboutObject(e.kind) {
		s.deliver(e)
		return nil
	}
	fault, repeat, delay := s.choose()
	if fault == DelayEvents {
		time.Sleep(delay)
	}
	s.deliver(e)
	s.remember(e)
	switch fault {
	case RepeatEvents:
		s.repeat(repeat)
	case CutWatch:
		s.cutNext = true
	}
	return nil
}

// repeat delivers the last events once more. It leaves out the deletion of an object
// unless the repeated events have brought the object back before: kube-scheduler's own
// cache of claims panics when a missing object is deleted.
func (s *eventStream) repeat(count int) {
	present := map[string]bool{}
	for _, earlier := range s.recent[max(0, len(s.recent)-count):] {
		if earlier.kind == "DELETED" && !present[earlier.object] {
			continue
		}
		present[earlier.object] = earlier.kind != "DELETED"
		s.deliver(earlier)
	}
}

func (s *eventStream) deliver(e event) { s.ready.Write(e.sent) }

func (s *eventStream) remember(e event) {
	s.recent = append(s.recent, e)
	if len(s.recent) > maxRepeated {
		s.recent = s.recent[1:]
	}
}
