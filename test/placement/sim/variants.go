package main

import (
	"math/rand"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// variant changes the trace's mix of tasks.
type variant struct {
	name string
	mix  trace.Mix
	// typed is the part of tasks that can only use one model of GPU, that of a node where they fit.
	typed float64
}

var variants = append(ofMixes(), variant{name: "10 % of tasks need one GPU model", typed: 0.1}, variant{name: "33 % of tasks need one GPU model", typed: 0.33})

func ofMixes() (variants []variant) {
	for _, mix := range trace.Mixes {
		variants = append(variants, variant{name: mix.Name, mix: mix})
	}
	return variants
}

// draw returns nodes of the trace and tasks of the variant in order of arrival, until 130 % of the GPUs are asked for.
func (v *variant) draw(scale int, seed int64) (nodes []node, tasks []task) {
	published, drawn := v.mix.Draw(scale, seed)
	nodes, tasks = newNodes(published), make([]task, len(drawn))
	for i := range drawn {
		tasks[i].Task = drawn[i]
	}
	rng := rand.New(rand.NewSource(seed))
	for i := range tasks {
		if v.typed > 0 && tasks[i].GPUs > 0 && rng.Float64() < v.typed {
			tasks[i].restrict(nodes, rng)
		}
	}
	return nodes, tasks
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
