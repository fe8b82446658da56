package main

import (
	"math"
	"slices"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// node holds the free resources of a node. Its GPUs are alike, so they are kept in order, the fullest first.
type node struct {
	model       string
	milliCPU    int64
	memory      int64
	wholeCPU    int64
	wholeMemory int64
	gpus        [8]int16 // thousandths
	n           int
	version     int
}

// task is a pod of the trace. If model is not empty, the task can only use GPUs of that model.
type task struct {
	trace.Task
	model string
}

func newNodes(nodes []trace.Node) []node {
	result := make([]node, len(nodes))
	for i, n := range nodes {
		result[i] = node{model: n.Model, milliCPU: n.MilliCPU, memory: n.MemoryMiB, wholeCPU: n.MilliCPU, wholeMemory: n.MemoryMiB, n: n.GPUs}
		for g := range n.GPUs {
			result[i].gpus[g] = trace.WholeGPU
		}
	}
	return result
}

func (n *node) fits(t *task) bool {
	if n.milliCPU < t.MilliCPU || n.memory < t.MemoryMiB || t.GPUs > 0 && t.model != "" && t.model != n.model {
		return false
	}
	have := 0
	for _, free := range n.gpus[:n.n] {
		if int(free) >= t.MilliGPU {
			have++
		}
	}
	return have >= t.GPUs
}

// take gives a task the GPU with that index, or, if it asks for several, those that are whole.
func (n *node) take(t *task, gpu int) {
	n.milliCPU -= t.MilliCPU
	n.memory -= t.MemoryMiB
	for left, g := t.GPUs, gpu; left > 0; left-- {
		if t.GPUs > 1 {
			g = slices.Index(n.gpus[:n.n], trace.WholeGPU)
		}
		n.gpus[g] -= int16(t.MilliGPU)
		slices.Sort(n.gpus[:n.n])
	}
	n.version++
}

// choices calls a function for each choice, but only once for equal choices.
func (n *node) choices(t *task, do func(gpu int)) {
	if t.GPUs != 1 {
		do(0)
		return
	}
	last := int16(-1)
	for g, free := range n.gpus[:n.n] {
		if int(free) >= t.MilliGPU && free != last {
			do(g)
			last = free
		}
	}
}

func (n *node) left() int {
	left := 0
	for _, free := range n.gpus[:n.n] {
		left += int(free)
	}
	return left
}

// A policy prefers the choice with the least cost.
type policy interface {
	// cost returns the cost of a choice: before and after are the node's states.
	cost(t *task, before, after *node) float64
	// saw gets each task before it is placed, and reports whether costs have changed.
	saw(t *task) bool
}

// cached is the best choice of a node for a shape of tasks.
type cached struct {
	version int
	gpu     int
	cost    float64
}

// curve is the allocated part of all GPUs, in %, when tasks had asked for 0, 1, 2 ... % of them.
type curve []float64

// play places the tasks one after the other. With plain, tasks without GPUs go where kube-scheduler's default scores send them, because
// our scheduler does not place them.
func play(nodes []node, tasks []task, p policy, plain bool) curve {
	capacity := 0
	for i := range nodes {
		capacity += nodes[i].n * trace.WholeGPU
	}
	cache := map[task][]cached{}
	asked, got := 0, 0
	result := curve{0}
	for i := range tasks {
		t := &tasks[i]
		if p.saw(t) {
			clear(cache)
		}
		best, gpu := -1, 0
		if t.GPUs == 0 && plain {
			best = byDefault(nodes, t)
		} else {
			known := cache[*t]
			if known == nil {
				known = make([]cached, len(nodes))
				for i := range known {
					known[i].version = -1
				}
				cache[*t] = known
			}
			best, gpu = cheapest(nodes, known, t, p)
		}
		asked += t.Asked()
		if best >= 0 {
			nodes[best].take(t, gpu)
			got += t.Asked()
		}
		for asked*100 >= capacity*len(result) {
			result = append(result, 100*float64(got)/float64(capacity))
		}
	}
	return result
}

// cheapest returns the node with the least cost, the first of equals, and the GPU there. It computes costs again only for nodes that
// changed.
func cheapest(nodes []node, known []cached, t *task, p policy) (best, gpu int) {
	best = -1
	least := math.Inf(1)
	for i := range nodes {
		c, n := &known[i], &nodes[i]
		if c.version != n.version {
			*c = cached{n.version, -1, math.Inf(1)}
			if n.fits(t) {
				n.choices(t, func(gpu int) {
					after := *n
					after.take(t, gpu)
					if cost := p.cost(t, n, &after); c.gpu < 0 || cost < c.cost {
						c.gpu, c.cost = gpu, cost
					}
				})
			}
		}
		if c.gpu >= 0 && (best < 0 || c.cost < least) {
			best, gpu, least = i, c.gpu, c.cost
		}
	}
	return best, gpu
}

// byDefault scores as kube-scheduler's NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation do.
func byDefault(nodes []node, t *task) int {
	best, most := -1, 0.0
	for i := range nodes {
		n := &nodes[i]
		if !n.fits(t) {
			continue
		}
		cpu := float64(n.milliCPU-t.MilliCPU) / float64(n.wholeCPU)
		memory := float64(n.memory-t.MemoryMiB) / float64(n.wholeMemory)
		score := math.Floor(50*(cpu+memory)) + math.Floor(100-50*math.Abs(cpu-memory))
		if best < 0 || score > most {
			best, most = i, score
		}
	}
	return best
}
