package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// errCut ends a watch in the middle of an event.
var errCut = errors.New("the proxy cut the watch")

// eventStream is the body of a watch with faults. It reads whole events from the
// server: JSON values, one after the other.
type eventStream struct {
	body    io.ReadCloser
	decoder *json.Decoder
	// choose decides about one event: the fault, how many events to repeat and
	// how long to delay, where that matters.
	choose func() (kind Kind, repeat int, delay time.Duration)
	// ready is what the client has not read yet, failure what follows it.
	ready   bytes.Buffer
	failure error
	// recent are the last events in order, at most maxRepeated.
	recent []event
	// cutNext says that only a part of the next event gets through.
	cutNext bool
}

// event is one of a watch.
type event struct {
	raw json.RawMessage
	// kind is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
	kind string
	// object identifies what it is about: namespace/name.
	object string
}

func newEventStream(body io.ReadCloser, choose func() (Kind, int, time.Duration)) *eventStream {
	return &eventStream{body: body, decoder: json.NewDecoder(body), choose: choose}
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

// next reads an event and makes ready what becomes of it.
func (s *eventStream) next() error {
	e, err := s.read()
	if err != nil {
		return err
	}
	if s.cutNext {
		s.ready.Write(e.raw[:len(e.raw)/2])
		return errCut
	}
	if e.kind != "ADDED" && e.kind != "MODIFIED" && e.kind != "DELETED" {
		// Bookmarks and errors say something about the watch itself.
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

func (s *eventStream) read() (event, error) {
	var raw json.RawMessage
	if err := s.decoder.Decode(&raw); err != nil {
		return event{}, err
	}
	var parsed struct {
		Type   string `json:"type"`
		Object struct {
			Metadata struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return event{}, fmt.Errorf("not the event of a watch: %w", err)
	}
	metadata := parsed.Object.Metadata
	return event{raw: raw, kind: parsed.Type, object: metadata.Namespace + "/" + metadata.Name}, nil
}

// repeat delivers the last events once more. The end of an object is left out unless
// the object has come back before: kube-scheduler's own cache of claims panics when an
// object goes that is not there.
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

func (s *eventStream) deliver(e event) {
	s.ready.Write(e.raw)
	s.ready.WriteByte('\n')
}

func (s *eventStream) remember(e event) {
	s.recent = append(s.recent, e)
	if len(s.recent) > maxRepeated {
		s.recent = s.recent[1:]
	}
}
