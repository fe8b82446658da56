package main

import (
	"math/rand"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// variant changes the trace's mix of tasks, or its nodes.
type variant struct {
	name string
	mix  trace.Mix
	// typed is the part of tasks that can only use one model of GPU: model, or the model of a node on which they fit.
	typed float64
	model string
	// change, if set, changes each node and task.
	change func(n *trace.Node, t *trace.Task)
}

// variants are the trace's mixes and others. The figures of the variants in untuned had no influence on the constants of
// pkg/placement.
var variants = append(ofMixes(), append([]variant{
	{name: "10 % of tasks need one GPU model", typed: 0.1},
	{name: "33 % of tasks need one GPU model", typed: 0.33},
}, untuned...)...)

var untuned = []variant{
	{name: "nodes with three quarters of the CPU", change: func(n *trace.Node, _ *trace.Task) { n.MilliCPU = n.MilliCPU * 3 / 4 }},
	{name: "nodes with half of the memory", change: func(n *trace.Node, _ *trace.Task) { n.MemoryMiB /= 2 }},
	{name: "30 % of capacity asked for by tasks with 8 GPUs", mix: trace.Mix{Part: 0.3, Sort: func(t *trace.Task) bool { return t.GPUs == 8 }}},
	{name: "20 % of tasks need a T4", typed: 0.2, model: "T4"},
	{name: "all shares are 0.3 or 0.7", change: func(_ *trace.Node, t *trace.Task) {
		switch {
		case t.MilliGPU == trace.WholeGPU || t.GPUs == 0:
		case t.MilliGPU < trace.WholeGPU/2:
			t.MilliGPU = 300
		default:
			t.MilliGPU = 700
		}
	}},
}

func ofMixes() (variants []variant) {
	for _, mix := range trace.Mixes {
		variants = append(variants, variant{name: mix.Name, mix: mix})
	}
	return variants
}

// draw returns nodes of the trace and tasks of the variant in order of arrival, until 130 % of the GPUs are asked for.
func (v *variant) draw(scale int, seed int64) (nodes []node, tasks []task) {
	published, drawn := v.mix.Draw(scale, seed)
	if v.change != nil {
		for i := range published {
			v.change(&published[i], &trace.Task{})
		}
		for i := range drawn {
			v.change(&trace.Node{}, &drawn[i])
		}
	}
	nodes, tasks = newNodes(published), make([]task, len(drawn))
	for i := range drawn {
		tasks[i].Task = drawn[i]
	}
	rng := rand.New(rand.NewSource(seed))
	for i := range tasks {
		if v.typed > 0 && tasks[i].GPUs > 0 && rng.Float64() < v.typed {
			tasks[i].restrict(nodes, v.model, rng)
		}
	}
	return nodes, tasks
}

// restrict limits a task to GPUs of one model: the given one if any, or the model of a node on which it fits.
func (t *task) restrict(nodes []node, model string, rng *rand.Rand) {
	for range 100 {
		if n := &nodes[rng.Intn(len(nodes))]; n.fits(t) && (model == "" || n.model == model) {
			t.model = n.model
			return
		}
	}
}
