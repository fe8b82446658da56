package web

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

//go:embed page
var assets embed.FS

const (
	// questionsAtOnce and questionPatience bound the cost of questions. A question looks at each node.
	questionsAtOnce  = 2
	questionPatience = 30 * time.Second
	// streamsAtOnce bounds the number of open pages.
	streamsAtOnce = 32
	// bodyAtMost bounds the size of a question in bytes.
	bodyAtMost = 1 << 20
	// queryAtMost bounds the length of a request's query in bytes.
	queryAtMost = 16 << 10
)

// server answers requests about a map.
type server struct {
	shown     *Map
	questions chan struct{}
	streams   chan struct{}
}

// Handler serves a map to clients that know the token, under a path that begins with it, as 127.0.0.1 with the given
// port.
func Handler(shown *Map, token, port string) http.Handler {
	s := &server{shown: shown, questions: make(chan struct{}, questionsAtOnce), streams: make(chan struct{}, streamsAtOnce)}
	page, err := fs.Sub(assets, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("GET /api/state", s.state)
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/device", s.asking(s.device))
	mux.HandleFunc("GET /api/select", s.asking(s.choose))
	mux.HandleFunc("GET /api/attribute", s.asking(s.attribute))
	mux.HandleFunc("GET /api/explain", s.asking(s.explain))
	mux.HandleFunc("POST /api/fit", s.asking(s.fit))
	return &guard{token: token, port: port, next: mux}
}

func (s *server) state(w http.ResponseWriter, r *http.Request) {
	answer(w, r, http.StatusOK, s.shown.State())
}

// refusal is an error caused by the client.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, text string) error { return &refusal{status, text} }

// asking serves a question. Only a few questions run at a time.
func (s *server) asking(ask func(ctx context.Context, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.RawQuery) > queryAtMost {
			fail(w, r, http.StatusRequestURITooLong, "the query is too long")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyAtMost)
		ctx, cancel := context.WithTimeout(r.Context(), questionPatience)
		defer cancel()
		select {
		case s.questions <- struct{}{}:
			defer func() { <-s.questions }()
		case <-ctx.Done():
			fail(w, r, http.StatusServiceUnavailable, "other questions take too long; try again")
			return
		}
		result, err := ask(ctx, r)
		var refused *refusal
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil:
			answer(w, r, http.StatusOK, result)
		case errors.As(err, &refused):
			fail(w, r, refused.status, refused.text)
		case errors.As(err, &tooLarge):
			fail(w, r, http.StatusRequestEntityTooLarge, "the question is too large; 1 MiB is the most")
		case ctx.Err() != nil:
			fail(w, r, http.StatusGatewayTimeout, "the answer takes too long; ask about less")
		default:
			fail(w, r, http.StatusInternalServerError, err.Error())
		}
	}
}

func fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	answer(w, r, status, map[string]string{"error": text})
}

// answer writes JSON, compressed if the client supports it.
func answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	encode := func(encoder *json.Encoder) {
		encoder.SetEscapeHTML(true) // A client that takes the answer for HTML finds no markup.
		_ = encoder.Encode(body)    // The client is gone.
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && status == http.StatusOK {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		encode(json.NewEncoder(compressed))
		_ = compressed.Close()
		return
	}
	w.WriteHeader(status)
	encode(json.NewEncoder(w))
}

// world returns the snapshot that questions are about.
func (s *server) world() (*whatif.Snapshot, error) {
	if world := s.shown.Snapshot(); world != nil {
		return world, nil
	}
	return nil, refuse(http.StatusServiceUnavailable, "the cluster is still being read; try again")
}
