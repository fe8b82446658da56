package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Counts are numbers of requests, events and faults.
type Counts struct {
	// Writes and Events are all that came by, with and without faults.
	Writes, Events int
	// Faults are those injected, by kind and what the request or event was about,
	// like "pods/binding".
	Faults map[Kind]map[string]int
}

func newCounts() Counts { return Counts{Faults: map[Kind]map[string]int{}} }

func (c *Counts) add(kind Kind, target string) {
	if c.Faults[kind] == nil {
		c.Faults[kind] = map[string]int{}
	}
	c.Faults[kind][target]++
}

func (c *Counts) clone() Counts {
	copied := *c
	copied.Faults = map[Kind]map[string]int{}
	for kind, targets := range c.Faults {
		copied.Faults[kind] = maps.Clone(targets)
	}
	return copied
}

// Of is the number of faults of a kind.
func (c Counts) Of(kind Kind) int {
	total := 0
	for _, count := range c.Faults[kind] {
		total += count
	}
	return total
}

// Total is the number of faults of all kinds.
func (c Counts) Total() int {
	total := 0
	for kind := range c.Faults {
		total += c.Of(kind)
	}
	return total
}

// String is one line for a log.
func (c Counts) String() string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(c.Faults)) {
		var targets []string
		for _, target := range slices.Sorted(maps.Keys(c.Faults[kind])) {
			targets = append(targets, fmt.Sprintf("%s %d", target, c.Faults[kind][target]))
		}
		kinds = append(kinds, fmt.Sprintf("%s: %d (%s)", kind, c.Of(kind), strings.Join(targets, ", ")))
	}
	return fmt.Sprintf("%d faults in %d writes and %d events: %s", c.Total(), c.Writes, c.Events, strings.Join(kinds, "; "))
}
