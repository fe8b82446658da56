package simulation

import (
	"flag"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

var (
	trace     = flag.Bool("trace", false, "tell each write")
	seed      = flag.Uint64("seed", 1, "the first seed")
	histories = flag.Int("histories", 20, "how many histories")
	length    = flag.Int("steps", 200, "how many steps a history has")
)

func TestHistories(t *testing.T) {
	configured, err := profiles(configurationFile)
	if err != nil {
		t.Fatal(err)
	}
	klog.SetLogger(logr.Discard())
	start := time.Now()
	requests := 0
	for i := range *histories {
		h := NewHistory(*seed+uint64(i), *length)
		var w *World
		began := time.Now()
		synctest.Test(t, func(*testing.T) {
			w = h.Run(configured, func(w *World) {
				if *trace {
					w.server.Trace = func(r *http.Request, err error) {
						if err != nil || r.Method != "GET" || r.URL.Query().Get("fieldSelector") != "" {
							w.note("    %s %s %s %s: %v", r.Header.Get("User-Agent"), r.Method, r.URL.Path, r.URL.Query().Get("fieldSelector"), err)
						}
					}
				}
			})
		})
		requests += w.server.Requests
		t.Logf("seed %d: %s, %d requests, %d failures", h.seed, time.Since(began), w.server.Requests, len(w.failures))
		if *trace {
			for _, kind := range slices.SortedFunc(maps.Keys(w.server.Kinds), func(a, b string) int { return w.server.Kinds[b] - w.server.Kinds[a] })[:min(20, len(w.server.Kinds))] {
				t.Logf("%6d %s", w.server.Kinds[kind], kind)
			}
		}
		if len(w.failures) > 0 || *trace {
			t.Logf("seed %d:\n%s", h.seed, w.Transcript())
		}
		if len(w.failures) > 0 {
			t.Errorf("seed %d fails", h.seed)
		}
	}
	t.Logf("%d histories in %s, %d requests", *histories, time.Since(start), requests)
}
