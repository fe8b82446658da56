package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// heartbeat is the interval of messages that show that the connection still exists.
	heartbeat = 15 * time.Second
	// writePatience limits the time that a browser may take to read an event.
	writePatience = 30 * time.Second
)

// events streams the changes after a version as server-sent events: "delta", or "reset" if the page must read the
// whole state again. The version is the page's or, after a reconnect, that of the last event it received.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = r.URL.Query().Get("since")
	}
	version, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		fail(w, r, http.StatusBadRequest, "since has to be a version of the state")
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		fail(w, r, http.StatusServiceUnavailable, "too many pages are open; close some")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := stream{w: w, control: http.NewResponseController(w)}
	if !out.send([]byte(": hello\n\n")) {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		deltas, more, ok := s.shown.since(version)
		if !ok {
			out.send([]byte("event: reset\ndata: {}\n\n"))
			return
		}
		for _, delta := range deltas {
			version++
			if !out.send(event(version, delta)) {
				return
			}
		}
		select {
		case <-more:
		case <-beat.C:
			if !out.send([]byte(": still here\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func event(version uint64, delta []byte) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "id: %d\nevent: delta\ndata: ", version)
	text.Write(delta) // Encoded JSON has no line breaks.
	text.WriteString("\n\n")
	return text.Bytes()
}

type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send reports whether the browser is still connected.
func (s *stream) send(text []byte) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(writePatience)) // Some writers cannot do this, for example recorders in tests.
	if _, err := s.w.Write(text); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
