package placement

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pod(namespace, kind string) Pod {
	return Pod{Namespace: namespace, MilliCPU: 1000, Memory: 1024, Asks: []Ask{{Kind: kind, Count: 1}}}
}

// part returns the fraction of the demand that requests a kind.
func part(d *Demand, kind string) float64 {
	sum := 0.0
	for _, s := range d.Shapes {
		if d.Kinds[s.Requests[0].Kind] == kind {
			sum += s.Weight
		}
	}
	return sum
}

// A namespace that keeps creating pods gets no more than its part of the demand.
func TestNamespaceCannotBendDemand(t *testing.T) {
	h := NewHistogram()
	for i := range 6 {
		for range 100 {
			h.Add(pod(fmt.Sprint("tenant-", i), "honest"), start)
		}
	}
	for range 100000 {
		h.Add(pod("greedy", "bent"), start)
	}
	d := h.Demand(start, 0)
	if p := part(d, "bent"); p > 0.251 || p < 0.2 {
		t.Errorf("one of seven namespaces makes %v of the demand, want a quarter", p)
	}
}

// With fewer namespaces than parts, all have equal parts.
func TestFewNamespaces(t *testing.T) {
	h := NewHistogram()
	for range 1000 {
		h.Add(pod("a", "often"), start)
	}
	for range 100 {
		h.Add(pod("b", "seldom"), start)
	}
	d := h.Demand(start, 0)
	if a, b := part(d, "often"), part(d, "seldom"); math.Abs(a-b) > near {
		t.Errorf("parts are %v and %v, want equal ones", a, b)
	}
}

// A namespace cannot make memory or the demand grow without limit.
func TestBounds(t *testing.T) {
	h := NewHistogram()
	for i := range 3000 {
		p := pod(fmt.Sprint("tenant-", i), fmt.Sprint("kind-", i))
		h.Add(p, start)
		p.Namespace = "greedy"
		h.Add(p, start)
	}
	if n := len(h.namespaces); n > 1024 {
		t.Errorf("%d namespaces are remembered", n)
	}
	if n := len(h.namespaces["greedy"]); n > 64 {
		t.Errorf("%d shapes of a namespace are remembered", n)
	}
	if d := h.Demand(start, 0); len(d.Kinds) > maxKinds || len(d.Shapes) > maxShapes {
		t.Errorf("%d kinds, %d shapes", len(d.Kinds), len(d.Shapes))
	}
}

func TestDecay(t *testing.T) {
	h := NewHistogram()
	for range 400 {
		h.Add(pod("a", "old"), start)
	}
	for range 100 {
		h.Add(pod("a", "new"), start.Add(2*halfLife))
	}
	d := h.Demand(start.Add(2*halfLife), 0)
	if a, b := part(d, "old"), part(d, "new"); math.Abs(a-b) > near {
		t.Errorf("400 pods two half-lives ago count %v, 100 pods now %v", a, b)
	}
	for range 300 {
		h.Add(pod("a", "new"), start.Add(2000*halfLife))
	}
	if p := part(h.Demand(start.Add(2000*halfLife), 0), "old"); p > near {
		t.Errorf("after 2,000 half-lives, pods count %v", p)
	}
}

// The order in which pods are added does not matter, because at start they come from a cache.
func TestOrderDoesNotMatter(t *testing.T) {
	type seen struct {
		pod Pod
		at  time.Time
	}
	var all []seen
	rng := rand.New(rand.NewSource(3))
	for i := range 500 {
		p := pod(fmt.Sprint("tenant-", i%7), fmt.Sprint("kind-", rng.Intn(3)))
		p.MilliCPU += rng.Int63n(30000)
		all = append(all, seen{p, start.Add(time.Duration(i) * time.Minute)})
	}
	now := start.Add(500 * time.Minute)
	demands := [2]*Demand{}
	for i := range demands {
		h := NewHistogram()
		for _, s := range all {
			h.Add(s.pod, s.at)
		}
		demands[i] = h.Demand(now, 0)
		rng.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	}
	if d := distance(demands[0], demands[1]); d > near {
		t.Errorf("the demands differ by %v", d)
	}
}

// The demand stays the same until the difference matters.
func TestVersions(t *testing.T) {
	h := NewHistogram()
	if d := h.Demand(start, 0); part(d, AnyDevice) != 1 {
		t.Errorf("without history: %+v", d.Shapes)
	}
	var last *Demand
	versions := 0
	for i := range 20000 {
		h.Add(pod("a", fmt.Sprint("kind-", i%4)), start)
		if d := h.Demand(start, 0); d != last {
			if last != nil && d.Version <= last.Version {
				t.Fatalf("version %d after %d", d.Version, last.Version)
			}
			last = d
			versions++
		}
	}
	if versions < 3 || versions > 20 {
		t.Errorf("%d versions for the same demand all the time", versions)
	}
	sum := 0.0
	for _, s := range last.Shapes {
		sum += s.Weight
	}
	if math.Abs(sum-1) > near || len(last.Kinds) != 5 || last.Kinds[0] != AnyDevice {
		t.Errorf("weights add up to %v, kinds are %q", sum, last.Kinds)
	}
}

// Requests of pods without devices are part of the demand, within bounds, and a noticeable difference makes a new demand.
func TestBesideIsBounded(t *testing.T) {
	h := NewHistogram()
	d := h.Demand(start, 3)
	for _, step := range []struct{ beside, want float64 }{{0.5, 0.5}, {0.55, 0.5}, {1, 1}, {1e9, mostBeside}, {-1, 0}} {
		for range 1000 { // The demand is considered.
			h.Add(pod("a", "kind"), start)
			d = h.Demand(start, step.beside)
		}
		if d.Beside != step.want {
			t.Errorf("Beside is %v for %v, expected %v", d.Beside, step.beside, step.want)
		}
	}
}

// Users choose the length of expressions; the remembered part is limited.
func TestLongKindsAreNotRemembered(t *testing.T) {
	h := NewHistogram()
	for i := range 64 {
		h.Add(pod("greedy", strings.Repeat("x", 300_000)+fmt.Sprint(i)), start)
	}
	size := 0
	for _, namespace := range h.namespaces {
		for key, e := range namespace {
			size += len(key)
			for _, a := range e.pod.Asks {
				size += len(a.Kind)
			}
		}
	}
	if size > 1<<20 {
		t.Errorf("64 pods are remembered with %d bytes", size)
	}
}

// TestShapesOfANamespaceHaveABound: a tenant creates and deletes pods that ask for one long expression each.
func TestShapesOfANamespaceHaveABound(t *testing.T) {
	h := NewHistogram()
	h.Add(pod("other", "honest"), start)
	for i := range 2000 {
		at := start.Add(time.Duration(i) * time.Second)
		h.Add(pod("tenant", fmt.Sprint(i, strings.Repeat("x", i*7%(maxText-10)))), at)
		taken := 0
		for key, e := range h.namespaces["tenant"] {
			if want := entryBytes(e.pod, key); want != e.bytes {
				t.Fatalf("an entry takes %d bytes, and %d were counted", want, e.bytes)
			}
			taken += e.bytes
		}
		if taken > maxBytes || len(h.namespaces["tenant"]) == 0 {
			t.Fatalf("%d shapes of one namespace take %d bytes, more than %d", len(h.namespaces["tenant"]), taken, maxBytes)
		}
	}
	if len(h.namespaces["other"]) != 1 {
		t.Error("the shape of another namespace was forgotten")
	}
}

// TestPodsOfLongAgo: all pods that exist when the scheduler starts may be years old.
func TestPodsOfLongAgo(t *testing.T) {
	h := NewHistogram()
	for range 2 * enough {
		h.Add(pod("a", "old"), start)
	}
	d := h.Demand(start.AddDate(10, 0, 0), 2)
	sum := 0.0
	for _, s := range d.Shapes {
		if math.IsNaN(s.Weight) || math.IsInf(s.Weight, 0) {
			t.Fatalf("the weight of a shape is %v", s.Weight)
		}
		sum += s.Weight
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the weights add up to %v", sum)
	}
}
