package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// step is one action of a history, after a delay.
type step struct {
	after time.Duration
	text  string
	do    func(*World)
}

// History is a list of steps in a world. It follows from its seed.
type History struct {
	seed uint64
	// length is the number of steps that were asked for.
	length int
	// also holds the themes that were asked for, separated by commas.
	also     string
	nodes    int
	replicas int
	// themes holds the names of the history's themes.
	themes map[string]bool
	steps  []step
}

// String returns the steps as readable text.
func (h *History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d nodes, %d replicas; about %s\n", h.seed, h.nodes, h.replicas, h.about())
	at := time.Duration(0)
	for _, s := range h.steps {
		at += s.after
		fmt.Fprintf(&b, "%9.3fs  %s\n", at.Seconds(), s.text)
	}
	return b.String()
}

// about returns the names of the themes.
func (h *History) about() string {
	var names []string
	for _, t := range themes {
		if h.themes[t.name] {
			names = append(names, t.name)
		}
	}
	return strings.Join(names, ", ")
}

// laterThemes are newer than the seeds of the regression tests. A random source of its own decides whether a history has them, so
// histories without them are unchanged.
var laterThemes = []theme{
	{shares, 0.3, 4, setupShares, changeShares},
	{partitions, 0.3, 4, setupPartitions, changePartitions},
	{admin, 0.2, 2, setupAdmin, changeAdmin},
	{selectors, 0.3, 4, nil, changeSelector},
	{cpus, 0.2, 3, setupCPUs, changeCPUs},
	{delays, 0.2, 0, nil, nil},
	{"slow controllers", 0.3, 3, nil, slowControllers},
	{slowEnds, 0.3, 0, nil, nil},
	{"missed changes", 0.3, 4, nil, missChanges},
}

// NewHistory makes a history with that many steps. It also has the given themes, separated by commas.
func NewHistory(seed uint64, steps int, also string) *History {
	g := &generator{random: rand.New(rand.NewPCG(seed, 2)), history: &History{seed: seed, length: steps, also: also, themes: map[string]bool{}}, pools: map[string]*pool{}}
	g.history.nodes = 1 + g.random.IntN(4)
	g.history.replicas = 1 + g.random.IntN(3)
	total, later := 0, rand.New(rand.NewPCG(seed, 3))
	for i, t := range themes {
		source := g.random
		if i >= len(themes)-len(laterThemes) {
			source = later
		}
		if source.Float64() < t.chance || slices.Contains(strings.Split(also, ","), t.name) {
			g.history.themes[t.name] = true
			total += t.weight
		}
	}
	for i, t := range themes {
		if t.setup == nil || !g.has(t.name) {
			continue
		}
		before := len(g.planned)
		if t.setup(g); i >= len(themes)-len(laterThemes) {
			steps += len(g.planned) - before
		}
	}
	for len(g.planned) < steps {
		g.next(g.random.IntN(total))
	}
	g.finish()
	return g.history
}

// planned is a step at its time.
type planned struct {
	at   time.Duration
	text string
	do   func(*World)
}

// generator makes steps. It knows the steps that it has made, not their effects.
type generator struct {
	random  *rand.Rand
	history *History
	now     time.Duration
	planned []planned
	pods    int
	claims  int
	rules   int
	volumes int
	groups  int
	pools   map[string]*pool
}

func (g *generator) has(theme string) bool { return g.history.themes[theme] }

// one reports true in one of n cases.
func (g *generator) one(n int) bool { return g.random.IntN(n) == 0 }

// pick returns one of several.
func pick[T any](g *generator, from ...T) T { return from[g.random.IntN(len(from))] }

// add plans an action after a delay. Later actions follow after that.
func (g *generator) add(after time.Duration, do func(*World), format string, args ...any) {
	g.now += after
	g.later(0, do, format, args...)
}

// later plans an action after a delay, in which other actions may follow.
func (g *generator) later(after time.Duration, do func(*World), format string, args ...any) {
	g.planned = append(g.planned, planned{g.now + after, fmt.Sprintf(format, args...), do})
}

// finish puts the steps in their order.
func (g *generator) finish() {
	slices.SortStableFunc(g.planned, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
	at := time.Duration(0)
	for _, p := range g.planned {
		g.history.steps = append(g.history.steps, step{p.at - at, p.text, p.do})
		at = p.at
	}
}

// soon returns the delay until the next action: mostly none, sometimes long.
func (g *generator) soon() time.Duration {
	switch g.random.IntN(20) {
	case 0:
		return time.Duration(10+g.random.IntN(50)) * time.Second
	case 1, 2, 3:
		return time.Duration(g.random.IntN(5000)) * time.Millisecond
	case 4, 5, 6, 7, 8, 9:
		return time.Duration(g.random.IntN(100)) * time.Millisecond
	default:
		return 0
	}
}

// next adds one more action, chosen by weight.
func (g *generator) next(n int) {
	for _, t := range themes {
		if !g.has(t.name) {
			continue
		}
		if n -= t.weight; n < 0 {
			t.next(g)
			return
		}
	}
}

func (g *generator) anyPod() string  { return fmt.Sprintf("pod-%d", g.random.IntN(max(g.pods, 1))) }
func (g *generator) anyNode() string { return fmt.Sprintf("node-%d", g.random.IntN(g.history.nodes)) }
func (g *generator) anyClaim() string {
	return fmt.Sprintf("claim-%d", g.random.IntN(max(g.claims, 1)))
}

// lastClaim returns one of the two newest claims: several pods use it at the same time.
func (g *generator) lastClaim() string {
	return fmt.Sprintf("claim-%d", max(g.claims-1-g.random.IntN(2), 0))
}
