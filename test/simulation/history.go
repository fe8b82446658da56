package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// step is one thing that happens in a history, after a while.
type step struct {
	after time.Duration
	text  string
	do    func(*World)
}

// History is what happens in a world: it follows from its seed.
type History struct {
	seed uint64
	// length is how many steps were asked for.
	length   int
	nodes    int
	replicas int
	steps    []step
}

// String tells the steps as people read them.
func (h *History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d nodes, %d replicas\n", h.seed, h.nodes, h.replicas)
	at := time.Duration(0)
	for _, s := range h.steps {
		at += s.after
		fmt.Fprintf(&b, "%9.3fs  %s\n", at.Seconds(), s.text)
	}
	return b.String()
}

// NewHistory makes a history of that many steps.
func NewHistory(seed uint64, steps int) *History {
	g := &generator{random: rand.New(rand.NewPCG(seed, 2)), history: &History{seed: seed, length: steps}}
	g.history.nodes = 1 + g.random.IntN(4)
	g.history.replicas = 1 + g.random.IntN(3)
	g.setup()
	for len(g.history.steps) < steps {
		g.next()
	}
	return g.history
}

// generator makes steps. It knows what it has made, not what became of it.
type generator struct {
	random  *rand.Rand
	history *History
	pods    int
	claims  int
	rules   int
	pools   map[string]int64 // generation
}

func (g *generator) add(after time.Duration, do func(*World), format string, args ...any) {
	g.history.steps = append(g.history.steps, step{after, fmt.Sprintf(format, args...), do})
}

// soon is a time after which the next thing happens: mostly at once, sometimes late.
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

func (g *generator) setup() {
	g.pools = map[string]int64{}
	for i := range g.history.nodes {
		node := fmt.Sprintf("node-%d", i)
		g.add(0, func(w *World) { w.createNode(node) }, "create node %s", node)
		g.publish(node, 0)
	}
	for _, class := range classNames {
		g.add(0, func(w *World) { w.createClass(class) }, "create class %s", class)
	}
	for _, kind := range claimKinds {
		g.add(0, func(w *World) { w.createTemplate(kind.name) }, "create template %s", kind.name)
	}
}

// publish has the driver of a node publish its pool, with other devices than before.
func (g *generator) publish(node string, after time.Duration) {
	g.pools[node]++
	generation, devices := g.pools[node], 1+g.random.IntN(5)
	if g.pools[node] == 1 {
		devices = max(devices, 2)
	}
	gap := time.Duration(0)
	if g.random.IntN(4) == 0 {
		gap = time.Duration(g.random.IntN(20000)) * time.Millisecond
	}
	g.add(after, func(w *World) { w.publish(node, generation, devices, gap) }, "publish %d devices of %s in generation %d, second slice after %s", devices, node, generation, gap)
}

func (g *generator) anyPod() string  { return fmt.Sprintf("pod-%d", g.random.IntN(max(g.pods, 1))) }
func (g *generator) anyNode() string { return fmt.Sprintf("node-%d", g.random.IntN(g.history.nodes)) }
func (g *generator) anyClaim() string {
	return fmt.Sprintf("claim-%d", g.random.IntN(max(g.claims, 1)))
}

// next adds one more thing that happens.
func (g *generator) next() {
	n := g.random.IntN(100)
	switch {
	case n < 35:
		g.pod()
	case n < 50:
		name := g.anyPod()
		g.add(g.soon(), func(w *World) { w.deletePod(name) }, "delete pod %s", name)
	case n < 60:
		name := g.anyPod()
		g.add(g.soon(), func(w *World) { w.finishPod(name) }, "pod %s succeeds", name)
	case n < 64:
		name := g.anyClaim()
		g.add(g.soon(), func(w *World) { w.deleteClaim(name) }, "delete claim %s", name)
	case n < 68:
		name, kind := g.anyClaim(), claimKinds[g.random.IntN(len(claimKinds))].name
		g.add(g.soon(), func(w *World) { w.createClaim(name, kind) }, "create claim %s again, kind %s", name, kind)
	case n < 74:
		g.publish(g.anyNode(), g.soon())
	case n < 79:
		g.taint()
	case n < 83:
		node := g.anyNode()
		on := g.random.IntN(2) == 0
		g.add(g.soon(), func(w *World) { w.cordon(node, on) }, "cordon %s: %t", node, on)
	case n < 86:
		node := g.anyNode()
		g.add(g.soon(), func(w *World) { w.deleteNode(node) }, "delete node %s", node)
		g.add(g.soon(), func(w *World) { w.createNode(node) }, "create node %s", node)
	case n < 88:
		class := classNames[g.random.IntN(len(classNames))]
		g.add(g.soon(), func(w *World) { w.deleteClass(class) }, "delete class %s", class)
		g.add(g.soon(), func(w *World) { w.createClass(class) }, "create class %s", class)
	case n < 92:
		g.crash()
	case n < 95:
		g.storm()
	case n < 98:
		replica, d := g.random.IntN(g.history.replicas), time.Duration(g.random.IntN(40))*time.Second
		g.add(g.soon(), func(w *World) { w.pauseReplica(replica, d) }, "replica %d is cut off for %s", replica, d)
	default:
		g.add(time.Duration(20+g.random.IntN(100))*time.Second, func(*World) {}, "nothing")
	}
}

func (g *generator) pod() {
	name := fmt.Sprintf("pod-%d", g.pods)
	g.pods++
	priority := []int32{0, 0, 0, 10, 100}[g.random.IntN(5)]
	kind := claimKinds[g.random.IntN(len(claimKinds))].name
	cpu := []string{"1", "1", "1", "12"}[g.random.IntN(4)]
	switch g.random.IntN(5) {
	case 0: // a claim that others may have as well
		claim := g.anyClaim()
		g.add(g.soon(), func(w *World) { w.createPod(name, claim, "", priority, cpu) }, "create pod %s with claim %s, priority %d, %s CPU", name, claim, priority, cpu)
	case 1, 2:
		claim := fmt.Sprintf("claim-%d", g.claims)
		g.claims++
		first, second := g.soon(), g.soon()
		makeClaim := func(w *World) { w.createClaim(claim, kind) }
		makePod := func(w *World) { w.createPod(name, claim, "", priority, cpu) }
		if g.random.IntN(4) == 0 {
			g.add(first, makePod, "create pod %s with claim %s, priority %d, %s CPU", name, claim, priority, cpu)
			g.add(second, makeClaim, "create claim %s, kind %s", claim, kind)
			return
		}
		g.add(first, makeClaim, "create claim %s, kind %s", claim, kind)
		g.add(second, makePod, "create pod %s with claim %s, priority %d, %s CPU", name, claim, priority, cpu)
	default:
		g.add(g.soon(), func(w *World) { w.createPod(name, "", kind, priority, cpu) }, "create pod %s from template %s, priority %d, %s CPU", name, kind, priority, cpu)
	}
}

func (g *generator) taint() {
	name, node, device := fmt.Sprintf("rule-%d", g.rules), g.anyNode(), fmt.Sprintf("dev-%d", g.random.IntN(4))
	g.rules++
	effect := []string{"NoSchedule", "NoExecute"}[g.random.IntN(2)]
	g.add(g.soon(), func(w *World) { w.createRule(name, node, device, effect) }, "taint device %s of %s with %s by %s", device, node, effect, name)
	g.add(g.soon(), func(w *World) { w.deleteRule(name) }, "delete %s", name)
}

func (g *generator) crash() {
	replica, writes, after := g.random.IntN(g.history.replicas), 1+g.random.IntN(12), g.random.IntN(2) == 0
	g.add(g.soon(), func(w *World) { w.crash(replica, writes, after) }, "replica %d ends at its write %d, after the server has stored it: %t", replica, writes, after)
}

func (g *generator) storm() {
	w := Weather{Latency: time.Duration(g.random.IntN(3000)) * time.Millisecond, Lag: time.Duration(g.random.IntN(8000)) * time.Millisecond}
	if g.random.IntN(2) == 0 {
		w.Refused = g.random.Float64() * 0.3
	}
	if g.random.IntN(2) == 0 {
		w.Lost = g.random.Float64() * 0.3
	}
	if g.random.IntN(2) == 0 {
		w.Cut = g.random.Float64() * 0.1
	}
	lasts := time.Duration(1+g.random.IntN(60)) * time.Second
	g.add(g.soon(), func(world *World) { world.storm(w, lasts) }, "for %s: latency to %s, lag to %s, %.0f%% refused, %.0f%% answers lost, %.0f%% watches cut", lasts, w.Latency, w.Lag, 100*w.Refused, 100*w.Lost, 100*w.Cut)
}
