package simulation

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// clocks is the theme of histories in which the wall clocks of the schedulers' machines are wrong.
const clocks = "clocks"

// clock is the wall clock of a machine. A bubble has only one time, so the clock shifts the times that a process reads and writes; nil
// shifts nothing. Times in the memory of a process stay the same when the clock is set.
type clock struct {
	mutex sync.Mutex
	// ahead is the clock's current lead, and offsets holds all leads so far: a process writes back times that it has read earlier.
	ahead   time.Duration
	offsets []time.Duration
}

// set sets the clock's lead from now on. It has to be in whole seconds, as times of the API are.
func (c *clock) set(ahead time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.ahead = ahead
	c.offsets = append(c.offsets, ahead)
}

func (c *clock) now() (ahead time.Duration, offsets []time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.ahead, append([]time.Duration{0}, c.offsets...)
}

// read returns an object as a process reads it: as if the server's clock were behind by the lead of the machine's clock. Times of classes
// stay as they are: schedulers compare these with each other only, and may have read an older class before the clock was set.
func (c *clock) read(o *object) *object {
	if c == nil || o.fields["kind"] == "DeviceClass" {
		return o
	}
	ahead, _ := c.now()
	if ahead == 0 {
		return o
	}
	fields, _ := shifted(o.fields, nil, -ahead, nil)
	return &object{fields: fields.(map[string]any), before: o}
}

// written returns the fields of a process's write as the server gets them. Times that the process has read from the stored object stay
// unchanged.
func (c *clock) written(fields map[string]any, stored *object) map[string]any {
	if c == nil {
		return fields
	}
	var before any
	if stored != nil {
		before = stored.fields
	}
	ahead, offsets := c.now()
	next, _ := shifted(fields, before, ahead, offsets)
	return next.(map[string]any)
}

// shift shifts a text that is a time, and keeps its number of digits.
func shift(text string, by time.Duration) string {
	if !isTime(text) {
		return text
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	layout := "2006-01-02T15:04:05"
	if _, fraction, found := strings.Cut(text, "."); found {
		layout += "." + strings.Repeat("0", len(fraction)-1)
	}
	return at.Add(by).Format(layout + "Z07:00")
}

// isTime reports whether a text looks like a time. Nearly all texts do not, and parsing each would take long.
func isTime(text string) bool {
	return len(text) >= len("2006-01-02T15:04:05Z") && text[4] == '-' && text[10] == 'T' && text[len(text)-1] == 'Z'
}

// shifted returns a JSON value with all its times shifted, except times that are equal to the stored ones under any of the offsets. A
// value without other times is returned unchanged; changed reports whether any time differs.
func shifted(value, stored any, ahead time.Duration, offsets []time.Duration) (next any, changed bool) {
	switch v := value.(type) {
	case map[string]any:
		before, _ := stored.(map[string]any)
		later := v
		for name := range v {
			if below, other := shifted(v[name], before[name], ahead, offsets); other {
				if !changed {
					later, changed = maps.Clone(v), true
				}
				later[name] = below
			}
		}
		return later, changed
	case []any:
		before, _ := stored.([]any)
		later := v
		for i := range v {
			var same any
			if i < len(before) {
				same = before[i]
			}
			if below, other := shifted(v[i], same, ahead, offsets); other {
				if !changed {
					later, changed = slices.Clone(v), true
				}
				later[i] = below
			}
		}
		return later, changed
	case string:
		for _, offset := range offsets {
			if text := shift(v, offset); text == stored {
				return text, text != v
			}
		}
		text := shift(v, ahead)
		return text, text != v
	}
	return value, false
}

func setupClocks(g *generator) {
	for replica := range g.machines() {
		if g.one(2) {
			g.setClock(replica, 0)
		}
	}
}

// changeClock sets a clock, mostly to a wrong time.
func changeClock(g *generator) { g.setClock(g.random.IntN(g.machines()), g.soon()) }

// machines returns the number of machines with schedulers.
func (g *generator) machines() int {
	if g.has(others) {
		return g.history.replicas + 1
	}
	return g.history.replicas
}

func (g *generator) setClock(replica int, after time.Duration) {
	ahead := time.Duration(1+g.random.IntN(59)) * pick(g, time.Second, time.Second, time.Minute)
	switch g.random.IntN(5) {
	case 0:
		ahead = 0
	case 1, 2:
		ahead = -ahead
	}
	g.add(after, func(w *World) {
		if replica < len(w.replicas) {
			w.replicas[replica].clock.set(ahead)
		}
	}, "the clock of replica %d is ahead by %s from now on", replica, ahead)
}
