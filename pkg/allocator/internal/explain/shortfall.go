package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
)

// shortfalls writes a line for each capacity with too little left.
func (w *textWriter) shortfalls(o *Obstacle) {
	for i, detail := range o.Details {
		if i == listedAtMost {
			w.line(4, "%d more", len(o.Details)-listedAtMost)
			return
		}
		if s := detail.Shortfall; s != nil {
			w.line(4, "%s: %s needs %s, %s left, %s short", detail.text(o.Devices), s.Device, s.Needed.String(), s.Left.String(), s.By.String())
		}
	}
}

// setText is the text about a counter set, or about several with the same text.
type setText struct {
	sets    []string
	text    string
	drawers []Drawer
}

// counterSets writes a line for each counter set with too little left. Sets that lack the same amounts
// because of the same claims share a line.
func (w *textWriter) counterSets(all []CounterSet) {
	lines := mergedSets(all)
	for i := range lines {
		if i == listedAtMost {
			w.line(4, "%d more", len(lines)-listedAtMost)
			return
		}
		w.line(4, "%s: %s%s", search.Join(lines[i].sets), lines[i].text, drawersText(lines[i].drawers))
	}
}

func mergedSets(all []CounterSet) []setText {
	var lines []setText
	for i := range all {
		set := &all[i]
		text, name := set.text(), setName(all, set)
		same := slices.IndexFunc(lines, func(l setText) bool {
			return l.text == text && slices.EqualFunc(l.drawers, set.Claims, func(a, b Drawer) bool { return a.Claim == b.Claim })
		})
		if same < 0 {
			lines = append(lines, setText{[]string{name}, text, cloneDrawers(set.Claims)})
			continue
		}
		lines[same].sets = append(lines[same].sets, name)
		for j := range set.Claims {
			d := &lines[same].drawers[j]
			d.Devices = append(d.Devices, set.Claims[j].Devices...)
		}
	}
	return lines
}

func cloneDrawers(all []Drawer) []Drawer {
	list := slices.Clone(all)
	for i := range list {
		list[i].Devices = slices.Clone(list[i].Devices)
	}
	return list
}

// setName returns the name of a set, with the pool if there are several.
func setName(all []CounterSet, set *CounterSet) string {
	if all[0].Pool == all[len(all)-1].Pool {
		return set.Set
	}
	return set.Pool + "/" + set.Set
}

// text describes the counters with too little left.
func (c *CounterSet) text() string {
	var parts []string
	for i := range c.Counters {
		d := &c.Counters[i]
		parts = append(parts, fmt.Sprintf("%s (%s needed, %s left)", d.Name, d.Needed.String(), d.Left.String()))
	}
	return search.Join(parts)
}

func drawersText(all []Drawer) string {
	if len(all) == 0 {
		return ""
	}
	return "; in use by " + listed(all, "more claims", func(d Drawer) string {
		if !d.named() {
			return fmt.Sprintf("other claims (%s)", search.Join(d.Devices))
		}
		return fmt.Sprintf("%s (%s)", d.Claim, search.Join(d.Devices))
	})
}

func (d Drawer) named() bool { return Holder{Claim: d.Claim}.named() }

// contended describes, by set, the counters that do not suffice for all available devices. Sets with the same
// text are named together.
func contended(all []Contention) string {
	var lines []setText
	for _, set := range setsOfContention(all) {
		var parts []string
		for i := range all {
			if pool, counter := splitCounter(all[i].Counter); pool == set {
				parts = append(parts, all[i].text(counter))
			}
		}
		text, name := search.Join(parts), set[strings.LastIndex(set, "/")+1:]
		if same := slices.IndexFunc(lines, func(l setText) bool { return l.text == text }); same >= 0 {
			lines[same].sets = append(lines[same].sets, name)
		} else {
			lines = append(lines, setText{sets: []string{name}, text: text})
		}
	}
	return listed(lines, "more counter sets", func(l setText) string { return search.Join(l.sets) + ": " + l.text })
}

// setsOfContention returns the distinct sets, as driver/pool/set.
func setsOfContention(all []Contention) []string {
	var sets []string
	for i := range all {
		if set, _ := splitCounter(all[i].Counter); !slices.Contains(sets, set) {
			sets = append(sets, set)
		}
	}
	return sets
}

// splitCounter splits driver/pool/set/counter. The pool may contain slashes, too.
func splitCounter(path string) (set, counter string) {
	last := strings.LastIndex(path, "/")
	return path[:last], path[last+1:]
}

func (c Contention) text(counter string) string {
	return fmt.Sprintf("%s (%s %s, %s left)", counter, search.Plural(c.Devices, "draws", "draw"), c.Needed.String(), c.Left.String())
}
