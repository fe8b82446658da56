package simulation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// alive runs a history, and returns its world with the failures and the transcript.
type alive func(*History) *World

// tries is the number of runs for each smaller history: goroutines run in another order each time, so one run shows
// little.
const tries = 2

// shrinking makes a failing history smaller, as long as it fails in the same way.
type shrinking struct {
	live     alive
	kind     string
	deadline time.Time
	lived    int
	// smallest is the smallest history that has failed, and world its world.
	smallest *History
	world    *World
}

// Shrink returns the smallest history that fails in the same way as this one, as far as it finds one within the limit. It
// also returns its world, and the number of runs. It leaves out steps first (delta debugging), then replicas and waits.
func Shrink(h *History, failed *World, limit time.Duration, live alive) (*History, *World, int) {
	s := &shrinking{live: live, kind: kindOfFailure(failed.failures[0]), deadline: time.Now().Add(limit), smallest: h, world: failed}
	for before := -1; before != s.size() && s.hasTime(); {
		before = s.size()
		s.leaveOut()
		s.simplify()
	}
	return s.smallest, s.world, s.lived
}

func (s *shrinking) hasTime() bool { return time.Now().Before(s.deadline) }

// size is a measure of the history. If a round makes it smaller, another round is worthwhile.
func (s *shrinking) size() int { return len(s.smallest.steps) + s.smallest.replicas }

// fails reports whether a history fails in the same way, and keeps it if so.
func (s *shrinking) fails(h *History) bool {
	for range tries {
		if !s.hasTime() {
			return false
		}
		s.lived++
		w := s.live(h)
		if slices.ContainsFunc(w.failures, func(f string) bool { return kindOfFailure(f) == s.kind }) {
			s.smallest, s.world = h, w
			return true
		}
	}
	return false
}

// leaveOut leaves out as many steps as possible: halves first, then quarters, and finally single steps.
func (s *shrinking) leaveOut() {
	for length := max(len(s.smallest.steps)/2, 1); length >= 1; length /= 2 {
		for from := len(s.smallest.steps) - length; from > -length && s.hasTime(); from -= length {
			s.fails(s.smallest.without(max(from, 0), min(from+length, len(s.smallest.steps))))
		}
	}
}

// simplify tries fewer replicas, and waits that are shorter or in whole seconds.
func (s *shrinking) simplify() {
	for n := 1; n < s.smallest.replicas; n++ {
		simpler := *s.smallest
		simpler.replicas = n
		if s.fails(&simpler) {
			break
		}
	}
	for i := range s.smallest.steps {
		for _, after := range []time.Duration{0, s.smallest.steps[i].after.Round(time.Second)} {
			if after != s.smallest.steps[i].after && s.hasTime() && s.fails(s.smallest.waiting(i, after)) {
				break
			}
		}
	}
}

// without leaves out some steps. Later steps keep their times.
func (h *History) without(from, to int) *History {
	smaller := *h
	smaller.steps = slices.Clone(h.steps)
	if to < len(smaller.steps) {
		for _, left := range smaller.steps[from:to] {
			smaller.steps[to].after += left.after
		}
	}
	smaller.steps = slices.Delete(smaller.steps, from, to)
	return &smaller
}

// waiting changes the delay of a step.
func (h *History) waiting(i int, after time.Duration) *History {
	simpler := *h
	simpler.steps = slices.Clone(h.steps)
	simpler.steps[i].after = after
	return &simpler
}

// named matches the parts of a failure that differ between histories that fail in the same way.
var named = regexp.MustCompile(`[a-z]+-[a-z0-9-]*[0-9]+|[0-9]+`)

// kindOfFailure returns the common part of similar failures: the rule of the checker, or the sentence without names and
// numbers.
func kindOfFailure(failure string) string {
	if rule, _, found := strings.Cut(failure, ": "); found && !strings.Contains(rule, " ") {
		return rule
	}
	line, _, _ := strings.Cut(failure, "\n")
	return named.ReplaceAllString(line, "_")
}

// Story returns a failed history as readable text: its size, the transcript, and the failures.
func Story(h *History, w *World, steps, lived int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The history of seed %d fails. It is told with %d of its %d steps", h.seed, len(h.steps), steps)
	fmt.Fprintf(&b, " (%d smaller ones were tried); schedulers: %d.\n", lived, h.replicas)
	b.WriteString("Lines with > are steps, lines with !! are faults, and others are actions of schedulers and controllers.\n\n")
	b.WriteString(w.Transcript())
	b.WriteString("\n\nWhat fails:\n")
	for _, failure := range w.failures {
		fmt.Fprintf(&b, "  %s\n", failure)
	}
	return b.String()
}
