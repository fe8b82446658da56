package proxy

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Faults of requests.
const (
	// Conflict answers 409 as if the object had changed. Nothing is forwarded.
	Conflict Kind = "409"
	// TooManyRequests answers 429. Nothing is forwarded.
	TooManyRequests Kind = "429"
	// RetryLater answers 429 and asks to try again after a second, which client-go
	// does by itself. Nothing is forwarded.
	RetryLater Kind = "429 with Retry-After"
	// InternalError answers 500. Nothing is forwarded.
	InternalError Kind = "500"
	// Unavailable answers 503. Nothing is forwarded.
	Unavailable Kind = "503"
	// CutBefore cuts the connection instead of forwarding the request.
	CutBefore Kind = "cut before"
	// CutAfter cuts the connection after the server has carried out the request;
	// its answer is lost.
	CutAfter Kind = "cut after"
	// DelayBefore holds a request up before it is forwarded.
	DelayBefore Kind = "delay before"
	// DelayAfter holds the answer up.
	DelayAfter Kind = "delay after"
)

// Faults of the events of a watch. The event itself is delivered.
const (
	// RepeatEvents delivers the last few events of the watch once more, in their
	// order, so that each object returns to an earlier state and then to its
	// last one.
	RepeatEvents Kind = "repeat events"
	// CutWatch cuts the watch in the middle of the next event.
	CutWatch Kind = "cut watch"
	// DelayEvents holds up this event and thereby all later ones of the watch.
	DelayEvents Kind = "delay events"
)

var (
	requestKinds = []Kind{Conflict, TooManyRequests, RetryLater, InternalError, Unavailable, CutBefore, CutAfter, DelayBefore, DelayAfter}
	eventKinds   = []Kind{RepeatEvents, CutWatch, DelayEvents}
)

const (
	// Delays are random in [minDelay, maxDelay).
	minDelay = 50 * time.Millisecond
	maxDelay = 2 * time.Second
	// maxEventDelay limits the delay of one event: delays of the events of a watch
	// add up, so that the watch would fall behind without end.
	maxEventDelay = 500 * time.Millisecond
	// maxRepeated is the maximum number of events that RepeatEvents repeats.
	maxRepeated = 32
)

// Rates are the probabilities of faults, between 0 and 1. Their sum is at most 1. At most
// one fault hits one request or event.
type Rates map[Kind]float64

// Faults are the faults that a proxy causes. The zero value forwards everything.
type Faults struct {
	// Writes are faults of POST, PUT, PATCH and DELETE.
	Writes Rates
	// Reads are faults of GET, watches not included.
	Reads Rates
	// Events are faults of the events of watches.
	Events Rates
	// WatchCuts is the maximum number of times that CutWatch hits each kind of
	// object. After each cut, client-go's reflectors pause twice as long, up to
	// 30 seconds, before they watch again; these pauses are not under test.
	WatchCuts int
	// NotRepeated lists the kinds of objects whose events are never repeated, as
	// resources like "pods".
	NotRepeated []string
}

// Mixed returns rates that spread a total evenly over some kinds.
func Mixed(total float64, kinds ...Kind) Rates {
	rates := Rates{}
	for _, kind := range kinds {
		rates[kind] = total / float64(len(kinds))
	}
	return rates
}

// Anything returns faults of all kinds: of writes with twice the rate, of reads, and of events of
// all kinds of objects. Events of the kinds in notRepeated are not repeated.
func Anything(rate float64, watchCuts int, notRepeated ...string) Faults {
	return Faults{
		Writes: Mixed(2*rate, requestKinds...),
		Reads: Mixed(rate, TooManyRequests, RetryLater, InternalError, Unavailable,
			CutBefore, CutAfter, DelayBefore, DelayAfter),
		Events:      Mixed(rate, eventKinds...),
		WatchCuts:   watchCuts,
		NotRepeated: notRepeated,
	}
}

// RequestKinds returns all kinds that can hit a request.
func RequestKinds() []Kind { return slices.Clone(requestKinds) }

func (f Faults) validate() error {
	for name, check := range map[string]struct {
		rates   Rates
		allowed []Kind
	}{
		"Writes": {f.Writes, requestKinds}, "Reads": {f.Reads, requestKinds}, "Events": {f.Events, eventKinds},
	} {
		total := 0.0
		for kind, rate := range check.rates {
			if !slices.Contains(check.allowed, kind) {
				return fmt.Errorf("faults: %s have kind %q; possible are %q", name, kind, check.allowed)
			}
			total += rate
		}
		// A sum like ten times 0.1 may be a little more than 1.
		if total > 1.000001 {
			return fmt.Errorf("faults: the rates of %s add up to %g; they are probabilities, and at most one fault happens to a request", name, total)
		}
	}
	return nil
}

// pick returns the kind that a random number in [0, 1) stands for, "" for none.
func (r Rates) pick(random float64) Kind {
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		if random < r[kind] {
			return kind
		}
		random -= r[kind]
	}
	return ""
}
