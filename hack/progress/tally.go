package main

import (
	"fmt"
	"math"
	"time"
)

// tally counts what is compiled, and what is left.
type tally struct {
	start time.Time
	// names are the packages that go said it compiles, in that order.
	names map[string]bool
	// expected is the work of each package that has to be compiled, once that is known.
	expected map[string]int64
	total    int64
}

// fewPackages are too few to say how long they take.
const fewPackages = 50

func newTally(start time.Time) *tally {
	return &tally{start: start, names: map[string]bool{}}
}

// compiled notes that a package is being compiled.
func (t *tally) compiled(name string) { t.names[name] = true }

// expect notes what has to be compiled in all. Packages that were compiled before somebody
// asked are no longer in it.
func (t *tally) expect(packages []pkg) {
	t.expected, t.total = map[string]int64{}, 0
	for _, p := range packages {
		t.expected[p.path] = p.work
		t.total += p.work
	}
}

// state describes the progress, "" before there is any.
func (t *tally) state(now time.Time) string {
	if len(t.names) == 0 {
		return ""
	}
	if t.total == 0 {
		return fmt.Sprintf("%d packages compiled", len(t.names))
	}
	var done int64
	all := len(t.names)
	for name, work := range t.expected {
		if t.names[name] {
			done += work
		} else {
			all++
		}
	}
	text := fmt.Sprintf("%d of %d packages compiled", len(t.names), all)
	// Where there is little to compile, linking takes the time.
	if elapsed := now.Sub(t.start); all >= fewPackages && done > t.total/50 && elapsed > 0 {
		text += ", " + left(time.Duration(float64(elapsed)*float64(t.total-done)/float64(done)))
	}
	return text
}

// left is a duration as one says it.
func left(d time.Duration) string {
	switch seconds := math.Ceil(d.Seconds()); {
	case seconds <= 10:
		return "some seconds left"
	case seconds < 90:
		return fmt.Sprintf("about %.0f s left", 10*math.Ceil(seconds/10))
	default:
		return fmt.Sprintf("about %.0f min left", math.Ceil(d.Minutes()))
	}
}
