package main

import (
	"math"
	"math/rand"
	"time"

	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// ignorant policies do not learn.
type ignorant struct{}

func (ignorant) saw(*task) bool { return false }

// firstFit takes the first GPUs of the node that kube-scheduler's default scores prefer.
type firstFit struct{ ignorant }

func (firstFit) cost(t *task, before, after *node) float64 {
	cpu := float64(after.milliCPU) / float64(after.wholeCPU)
	memory := float64(after.memory) / float64(after.wholeMemory)
	return -math.Floor(50*(cpu+memory)) - math.Floor(100-50*math.Abs(cpu-memory))
}

// bestFit leaves as little as possible, each resource relative to its largest value, and then takes the fullest GPU.
type bestFit struct{ ignorant }

func (bestFit) cost(_ *task, _, after *node) float64 { return leftOver(after) }

func leftOver(n *node) float64 {
	return float64(n.milliCPU)/128000 + float64(n.memory)/1048576 + float64(n.left())/8000
}

// gradient is FGD as published: a coarse score of the capacity that a typical task can no longer use, and chance or best fit
// among equals. It gets the tasks that will come, with their true frequencies.
type gradient struct {
	ignorant
	shapes []typical
	rng    *rand.Rand // nil: best fit among equals
}

type typical struct {
	task
	weight float64
}

// typicalOf returns the shapes of the tasks with their frequencies.
func typicalOf(tasks []task) (shapes []typical) {
	index := map[task]int{}
	for _, t := range tasks {
		i, known := index[t]
		if !known {
			i = len(shapes)
			index[t] = i
			shapes = append(shapes, typical{task: t})
		}
		shapes[i].weight += 1 / float64(len(tasks))
	}
	return shapes
}

func (g *gradient) fragments(n *node) float64 {
	free := float64(n.left())
	total := 0.0
	for i := range g.shapes {
		s := &g.shapes[i]
		if s.GPUs == 0 || !n.fits(&s.task) {
			total += s.weight * free
			continue
		}
		for _, f := range n.gpus[:n.n] {
			if int(f) < s.MilliGPU {
				total += s.weight * float64(f)
			}
		}
	}
	return total
}

func (g *gradient) cost(_ *task, before, after *node) float64 {
	score := math.Floor(100 / (1 + math.Exp(-(g.fragments(before)-g.fragments(after))/1000)))
	if g.rng != nil {
		return -score - g.rng.Float64()/100
	}
	return -score + leftOver(after)/10
}

// ours is the objective, which learns from the tasks as they come.
type ours struct {
	history *placement.Histogram
	demand  *placement.Demand
	scratch placement.Scratch
	state   placement.State
	models  map[string]uint64 // kinds that the GPUs of a model satisfy
	now     time.Time
	// CPU that tasks with GPUs and those without have asked for
	with, without int64
}

func newOurs() *ours {
	h := placement.NewHistogram()
	return &ours{history: h, demand: h.Demand(time.Time{}, 0), models: map[string]uint64{}, now: time.Unix(0, 0)}
}

// saw counts a task as the plugin counts pods, one a second.
func (o *ours) saw(t *task) bool {
	o.now = o.now.Add(time.Second)
	if t.GPUs == 0 {
		o.without += t.MilliCPU
	} else {
		o.with += t.MilliCPU
		o.history.Add(placement.Pod{
			Namespace: "default", MilliCPU: t.MilliCPU, Memory: t.MemoryMiB,
			Asks: []placement.Ask{{Kind: "gpu " + t.model, Count: t.GPUs, Amount: float64(t.MilliGPU) / trace.WholeGPU}},
		}, o.now)
	}
	d := o.history.Demand(o.now, float64(o.without)/float64(max(1, o.with)))
	if d == o.demand {
		return false
	}
	o.demand = d
	clear(o.models)
	return true
}

func (o *ours) assess(n *node) placement.Value {
	kinds, known := o.models[n.model]
	if !known {
		for i, k := range o.demand.Kinds {
			if k == placement.AnyDevice || k == "gpu " || k == "gpu "+n.model {
				kinds |= 1 << i
			}
		}
		o.models[n.model] = kinds
	}
	o.state.MilliCPU, o.state.Memory, o.state.Devices = n.milliCPU, n.memory, o.state.Devices[:0]
	for i, free := range n.gpus[:n.n] {
		o.state.Devices = append(o.state.Devices, placement.Device{Kinds: kinds, Unit: int32(i), Size: 1, Free: float64(free) / trace.WholeGPU})
	}
	return o.demand.Assess(&o.state, &o.scratch)
}

func (o *ours) cost(_ *task, before, after *node) float64 {
	return placement.Cost(o.assess(before), o.assess(after))
}
