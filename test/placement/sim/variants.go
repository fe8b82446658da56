package main

import (
	"math/rand"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// variant changes the trace's mix of tasks, as the paper's evaluation does.
type variant struct {
	name string
	// part of the GPU capacity that is asked for (of the tasks, for those without GPUs) is to be this for tasks of a sort.
	part float64
	sort func(t *task) bool
	// typed is the part of tasks that can only use one model of GPU, that of a node where they fit.
	typed float64
}

func several(t *task) bool { return t.GPUs > 1 }
func shares(t *task) bool  { return t.GPUs == 1 && t.MilliGPU < trace.WholeGPU }
func noGPU(t *task) bool   { return t.GPUs == 0 }

var variants = []variant{
	{name: "openb"},
	{name: "20 % of capacity asked for by tasks with several GPUs", part: 0.2, sort: several},
	{name: "50 % of capacity asked for by tasks with several GPUs", part: 0.5, sort: several},
	{name: "60 % of capacity asked for by shares", part: 0.6, sort: shares},
	{name: "100 % of capacity asked for by shares", part: 1, sort: shares},
	{name: "10 % of tasks need one GPU model", typed: 0.1},
	{name: "33 % of tasks need one GPU model", typed: 0.33},
	{name: "5 % of tasks without GPU", part: 0.05, sort: noGPU},
	{name: "25 % of tasks without GPU", part: 0.25, sort: noGPU},
}

// weight is what a task counts in the part that a variant sets.
func (v *variant) weight(t *task) float64 {
	sample := task{}
	if v.sort(&sample) { // of tasks
		return 1
	}
	return float64(t.Asked())
}

// draw returns nodes of the trace and tasks of the variant in order of arrival, until 130 % of the GPUs are asked for.
func (v *variant) draw(scale int, seed int64) (nodes []node, tasks []task) {
	published, drawn := trace.Draw(scale, seed)
	nodes = newNodes(published)
	rng := rand.New(rand.NewSource(seed))
	pool := make([]task, len(drawn))
	for i := range drawn {
		pool[i].Task = drawn[i]
	}
	switch {
	case v.typed > 0:
		for i := range pool {
			if pool[i].GPUs > 0 && rng.Float64() < v.typed {
				pool[i].restrict(nodes, rng)
			}
		}
		return nodes, pool
	case v.part == 0:
		return nodes, pool
	}
	in, all := 0.0, 0.0
	for i := range pool {
		w := v.weight(&pool[i])
		all += w
		if v.sort(&pool[i]) {
			in += w
		}
	}
	return nodes, v.redraw(pool, in/all, 13*trace.Capacity(published)/10, rng)
}

// redraw draws tasks so that the sort has its part instead of the one that it had.
func (v *variant) redraw(pool []task, had float64, until int, rng *rand.Rand) (tasks []task) {
	more, less := v.part/had, (1-v.part)/(1-had)
	most := max(more, less, 1)
	for asked := 0; asked < until; {
		t := pool[rng.Intn(len(pool))]
		chance := less
		if v.sort(&t) {
			chance = more
		} else if v.weight(&t) == 0 {
			chance = 1
		}
		if rng.Float64()*most < chance {
			tasks = append(tasks, t)
			asked += t.Asked()
		}
	}
	return tasks
}

// restrict lets a task use GPUs of one model only, of a node where it would fit.
func (t *task) restrict(nodes []node, rng *rand.Rand) {
	for range 100 {
		if n := &nodes[rng.Intn(len(nodes))]; n.fits(t) {
			t.model = n.model
			return
		}
	}
}
