package simulation

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	trace     = flag.Bool("trace", false, "tell each write, also of histories that do not fail")
	seed      = flag.Uint64("seed", 1, "the first seed; 0 for a new one")
	histories = flag.Int("histories", 50, "how many histories, unless a duration is given")
	duration  = flag.Duration("duration", 0, "for how long histories are begun")
	length    = flag.Int("steps", 62, "how many steps a history has: with so many, it has at least 200 events")
	about     = flag.String("about", "", "themes that all histories have whatever their seeds say, separated by commas")
	shrink    = flag.Duration("shrink", 30*time.Second, "how long a history that fails is made smaller")
	stop      = flag.Bool("stop", false, "live through no further history after one that fails")
	again     = flag.Int("again", 0, "how often a history that fails is lived through once more, to see how often it fails")
)

// newVariable is the environment variable of TestNewHistories, "SEED,HISTORIES": a run of many packages has no flags for one of them.
const newVariable = "SIMULATION_NEW"

// longStory is how many lines of a story are printed; a longer one is in a file.
const longStory = 120

// TestHistories lives through random histories. Each has its seed: always the same few, or new ones each time with -seed 0
// (make simulation). What fails is printed with the command that has it again.
func TestHistories(t *testing.T) {
	first := *seed
	if first == 0 {
		first = uint64(rand.IntN(1_000_000_000))
	}
	start := time.Now()
	liveThrough(t, first, func(lived int) bool {
		return lived == 0 || *duration == 0 && lived < *histories || time.Since(start) < *duration
	})
}

// TestNewHistories lives through histories with other seeds in each version of the source: make test begins with a number that comes
// from the files under version control. So each change meets new histories, and a run can be repeated.
func TestNewHistories(t *testing.T) {
	text := os.Getenv(newVariable)
	if text == "" {
		t.Skipf("$%s does not say which histories: make test and make test-all do", newVariable)
	}
	var first uint64
	var most int
	if _, err := fmt.Sscanf(text, "%d,%d", &first, &most); err != nil {
		t.Fatalf("$%s is %q; it has to be a seed and a number of histories, such as 17,60: %v", newVariable, text, err)
	}
	liveThrough(t, first, func(lived int) bool { return lived < most })
}

// liveThrough lives through histories from a seed on as long as there is another one.
func liveThrough(t *testing.T, first uint64, another func(lived int) bool) {
	start, used, lived, events, fewest := time.Now(), processorTime(t), 0, 0, math.MaxInt
	for another(lived) && !(*stop && t.Failed()) {
		h := NewHistory(first+uint64(lived), *length, *about)
		began := time.Now()
		w := Live(t, h, traced)
		lived++
		events += w.server.events()
		fewest = min(fewest, w.server.events())
		if testing.Verbose() {
			t.Logf("seed %d: %s, %d events, %d of them requests, %d failures", h.seed, time.Since(began).Round(time.Millisecond), w.server.events(), w.server.Requests, len(w.failures))
		}
		if *trace {
			tellRequests(t, w)
			t.Logf("seed %d:\n%s", h.seed, w.Transcript())
		}
		if len(w.failures) > 0 {
			report(t, h, w)
		}
	}
	used = processorTime(t) - used
	t.Logf("%d histories from seed %d on in %s, with %d events, %d of them in the shortest one; %.0f in a minute of one processor",
		lived, first, time.Since(start).Round(time.Second), events, fewest, float64(lived)/used.Minutes())
}

// processorTime is what the process has used of its processors so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// report makes a failed history small, and tells it.
func report(t *testing.T, h *History, failed *World) {
	t.Helper()
	live := func(h *History) *World { return Live(t, h, nil) }
	if *again > 0 {
		fails := 0
		for range *again {
			if len(live(h).failures) > 0 {
				fails++
			}
		}
		t.Logf("seed %d failed in %d of %d further attempts", h.seed, fails, *again)
	}
	small, w, lived := Shrink(h, failed, *shrink, live)
	story := Story(small, w, len(h.steps), lived)
	if lines := strings.Split(story, "\n"); len(lines) > longStory {
		file := filepath.Join(os.TempDir(), fmt.Sprintf("simulation-seed-%d.txt", h.seed))
		if err := os.WriteFile(file, []byte(story), 0o600); err != nil {
			t.Error(err)
		}
		story = strings.Join(lines[:longStory/2], "\n") + fmt.Sprintf("\n... (all %d lines are in %s)\n", len(lines), file) +
			strings.Join(lines[len(lines)-longStory/2:], "\n")
	}
	t.Errorf("%s\n%s", h.command(), story)
}

func traced(w *World) {
	if !*trace {
		return
	}
	w.server.Trace = func(r *http.Request, err error) {
		if err != nil || r.Method != "GET" || r.URL.Query().Get("fieldSelector") != "" {
			w.note("    %s %s %s %s: %v", r.Header.Get("User-Agent"), r.Method, r.URL.Path, r.URL.Query().Get("fieldSelector"), err)
		}
	}
}

func tellRequests(t *testing.T, w *World) {
	t.Helper()
	kinds := slices.SortedFunc(maps.Keys(w.server.Kinds), func(a, b string) int { return w.server.Kinds[b] - w.server.Kinds[a] })
	for _, kind := range kinds[:min(20, len(kinds))] {
		t.Logf("%6d %s", w.server.Kinds[kind], kind)
	}
}
