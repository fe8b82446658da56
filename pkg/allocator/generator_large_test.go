package allocator_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// largeNodes is how many nodes a large scenario has pools for.
const largeNodes = 4

// largeScenario makes a world with pools for several nodes and claims with up to six requests for up to eight
// devices each. One node sees about 40 devices. Upstream takes too long for some of these worlds.
func (g *generator) largeScenario() scenario {
	g.start()
	// Mostly one oddity at a time; otherwise hardly any claim could be allocated.
	g.odd = g.odd && g.oneIn(3)
	g.groups, g.capacity, g.derived = g.oneIn(6), g.oneIn(6), g.oneIn(6)
	for node := range largeNodes {
		g.s.slices = append(g.s.slices, g.largePool(fmt.Sprintf("local-%d", node), 8+g.Intn(9), func(int) func(*b.SliceBuilder) {
			return func(s *b.SliceBuilder) { s.OnNode(fmt.Sprintf("node-%d", node)) }
		})...)
	}
	g.s.slices = append(g.s.slices, g.largePool("network", 4+g.Intn(9), func(int) func(*b.SliceBuilder) { return g.reach })...)
	// A slice for each node in one pool.
	g.s.slices = append(g.s.slices, g.largePool("spread", largeNodes*(1+g.Intn(3)), func(part int) func(*b.SliceBuilder) {
		return func(s *b.SliceBuilder) { s.OnNode(fmt.Sprintf("node-%d", part%largeNodes)) }
	})...)
	g.shuffle()
	g.use()
	left := 6
	for i := range 1 + g.Intn(2) {
		requests := 1 + g.Intn(max(1, left-1))
		left -= requests
		g.s.claims = append(g.s.claims, g.largeClaim(i, requests))
	}
	return g.s
}

// largePool makes a pool of some devices in slices of up to eight, which reach decides
// about one by one. "spread" gets one slice for each node.
func (g *generator) largePool(name string, devices int, reach func(part int) func(*b.SliceBuilder)) []*resourceapi.ResourceSlice {
	g.last = nil
	each := 8
	if name == "spread" {
		each = devices / largeNodes
	}
	parts := (devices + each - 1) / each
	withCounters := g.oneIn(5)
	total := int64(parts)
	if withCounters {
		total++
	}
	var list []*resourceapi.ResourceSlice
	add := func(s *b.SliceBuilder) {
		if !g.oddly(20) {
			list = append(list, s.InPool(name, 1, total).Obj())
		}
	}
	if withCounters {
		counters := b.Slice(name+"-counters").Counters("set-0", "memory", "24", "engines", "16").Counters("set-1", "memory", "8")
		counters.OnAllNodes()
		add(counters)
	}
	for part := range parts {
		s := b.Slice(fmt.Sprintf("%s-%d", name, part))
		reach(part)(s)
		for i := range min(each, devices-part*each) {
			s.Devices(g.device(fmt.Sprintf("dev-%d-%d", part, i), withCounters))
		}
		add(s)
	}
	return list
}

// largeClaim makes a claim whose requests together want fewer devices than there usually are.
func (g *generator) largeClaim(index, requests int) *resourceapi.ResourceClaim {
	var list []*b.RequestBuilder
	var names []string
	for i := range requests {
		name := fmt.Sprintf("r%d", i)
		names = append(names, name)
		r := b.Request(name, pick(g, "any", "any", "any", "big", "small"))
		r.Count(int64(pick(g, 1, 1, 1, 2, 2, 3, 4, 8)))
		if g.oneIn(8) {
			r.Where(pick(g, isBig, isSmall))
		}
		if g.oneIn(6) {
			r.Tolerate(pick(g, "t1", "t2", ""))
		}
		if g.oneIn(30) {
			r.All()
		}
		if g.oneIn(6) && g.s.features.PrioritizedList {
			other := b.Request("s1", "any").Count(int64(1 + g.Intn(3)))
			list = append(list, b.FirstAvailable(name, b.Request("s0", pick(g, "big", "small")).Count(int64(pick(g, 2, 4, 8))), other))
			names[i] = name
			continue
		}
		list = append(list, r)
	}
	claim := b.Claim(fmt.Sprintf("claim-%d", index), list...)
	if g.oneIn(3) {
		attribute := pick(g, "gpu.example.com/numa", "example.com/root", "gpu.example.com/model")
		claim.Match(attribute, names[g.Intn(len(names))])
	}
	return claim.Modify(g.enrich).Obj()
}
