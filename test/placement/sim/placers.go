package main

import (
	"math"
	"math/bits"
	"math/rand"
	"slices"
	"time"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// scored places by a policy of the experiment without departures.
type scored struct {
	policy
	known [][]cached // by shape and host
	// plain means that kube-scheduler's default scores place tasks without GPU.
	plain bool
}

func (s *scored) arrives(j *job, now int64) {
	if o, learns := s.policy.(*ours); learns {
		o.now = time.Unix(now-1, 0) // It counts a second for each task.
	}
	if s.saw(&j.task) {
		clear(s.known)
	}
}

func (s *scored) place(c *cluster, a *arrived) (best int, gpus uint8) {
	for len(s.known) <= a.shape {
		s.known = append(s.known, nil)
	}
	if s.known[a.shape] == nil {
		s.known[a.shape] = make([]cached, len(c.hosts))
		for i := range c.hosts {
			s.known[a.shape][i].version = -1
		}
	}
	rule := s.policy
	if s.plain && a.GPUs == 0 {
		rule = firstFit{}
	}
	best, least, gpu := -1, math.Inf(1), 0
	for i := range c.hosts {
		known, h := &s.known[a.shape][i], c.seen(i, a)
		if h != &c.hosts[i] {
			known = &cached{version: -1}
		}
		if known.version != h.version {
			*known = cached{h.version, -1, math.Inf(1)}
			if h.fits(&a.task) {
				h.choices(&a.task, func(gpu int) {
					after := h.node
					after.take(&a.task, gpu)
					if cost := rule.cost(&a.task, &h.node, &after); known.gpu < 0 || cost < known.cost {
						known.gpu, known.cost = gpu, cost
					}
				})
			}
		}
		if known.gpu >= 0 && (best < 0 || known.cost < least) {
			best, gpu, least = i, known.gpu, known.cost
		}
	}
	if best < 0 {
		return best, 0
	}
	if _, first := rule.(firstFit); first && a.GPUs == 1 {
		return best, c.seen(best, a).first(&a.task)
	}
	return best, c.seen(best, a).pick(&a.task, gpu)
}

// first returns the first GPU with room for a task, as the in-tree allocator takes it.
func (h *host) first(t *task) uint8 {
	return 1 << slices.IndexFunc(h.free[:h.n], func(free int16) bool { return int(free) >= t.MilliGPU })
}

// packed is the former strategy pack: the most used node and GPU, whatever else runs there.
type packed struct{ ignorant }

func (packed) cost(_ *task, _, after *node) float64 {
	used, squares := 0.0, 0.0
	for _, free := range after.gpus[:after.n] {
		u := 1 - float64(free)/trace.WholeGPU
		used, squares = used+u, squares+u*u
	}
	return 1 - (used+squares/1024)/float64(after.n)
}

// consolidating is strategy consolidate: first a node in use before an empty one, then the cost of the node, then the objective. As in
// the product, pods that have run for long are expected to run for long.
type consolidating struct {
	scored
	price func(h *host) float64
	// times is set if the ends of pods are known: then the cost of a node is the additional time for which the job keeps it.
	times bool
}

func (p *consolidating) place(c *cluster, a *arrived) (best int, gpus uint8) {
	best, gpu := -1, 0
	var least [3]float64
	for i := range c.hosts {
		h := c.seen(i, a)
		if !h.fits(&a.task) {
			continue
		}
		rank := [3]float64{0, p.keeping(c, a, h), math.Inf(-1)}
		if len(h.running) == 0 {
			rank[0] = 1
		}
		if best >= 0 && slices.Compare(rank[:], least[:]) > 0 {
			continue
		}
		h.choices(&a.task, func(g int) {
			after := h.node
			after.take(&a.task, g)
			rank[2] = p.cost(&a.task, &h.node, &after)
			if best < 0 || slices.Compare(rank[:], least[:]) < 0 {
				best, gpu, least = i, g, rank
			}
		})
	}
	if best < 0 {
		return best, 0
	}
	return best, c.seen(best, a).pick(&a.task, gpu)
}

// keeping returns the cost of keeping a host for a job.
func (p *consolidating) keeping(c *cluster, a *arrived, h *host) float64 {
	if len(h.running) == 0 {
		return p.price(h)
	}
	first, last := c.now, int64(0)
	for _, r := range h.running {
		first, last = min(first, r.began), max(last, r.ends)
	}
	if p.times {
		return p.price(h) * float64(max(0, c.now+a.lasts-last))
	}
	return p.price(h) / float64(uint64(1)<<(bits.Len64(uint64(c.now-first))/3*3))
}

func one(*host) float64 { return 1 }

func byGPUs(h *host) float64 { return float64(h.n) }

func newConsolidating(price func(*host) float64, known bool) placer {
	return &consolidating{scored: scored{policy: newOurs()}, price: price, times: known}
}

// placers are made for each run.
var placers = []struct {
	name string
	make func(jobs []job) placer
}{
	{"in-tree", func([]job) placer { return &scored{policy: firstFit{}} }},
	{"best fit", bestFits},
	{"FGD", func(jobs []job) placer {
		return &scored{policy: &gradient{shapes: typicalOf(tasksOf(jobs)), rng: rand.New(rand.NewSource(1))}}
	}},
	{"ours", func([]job) placer { return &scored{policy: newOurs()} }},
	{"pack, as it was", func([]job) placer { return &scored{policy: packed{}, plain: true} }},
	{"consolidate", func([]job) placer { return newConsolidating(one, false) }},
	{"consolidate, price by GPUs", func([]job) placer { return newConsolidating(byGPUs, false) }},
	{"consolidate, times known", func([]job) placer { return newConsolidating(one, true) }},
	{"consolidate, times known, price by GPUs", func([]job) placer { return newConsolidating(byGPUs, true) }},
}

func tasksOf(jobs []job) (tasks []task) {
	for i := range jobs {
		for range jobs[i].pods {
			tasks = append(tasks, jobs[i].task)
		}
	}
	return tasks
}
