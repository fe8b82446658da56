package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// simulate plays a stream of jobs.
func simulate(scale int, load float64, gangs bool, seed int64, make func(jobs []job) placer, p planner) figures {
	nodes := newNodes(trace.Nodes(scale))
	jobs := stream(nodes, load, gangs, seed)
	return newCluster(nodes, make(jobs), p).play(jobs)
}

func newCluster(nodes []node, placer placer, planner planner) *cluster {
	c := &cluster{placer: placer, planner: planner, freed: map[int]bool{}}
	for i := range nodes {
		c.hosts = append(c.hosts, host{node: nodes[i], free: nodes[i].gpus})
	}
	return c
}

// wait returns a quantile of the jobs' waiting times in minutes: the given part of them waited no longer.
func wait(of []*arrived, part float64) float64 {
	if len(of) == 0 {
		return 0
	}
	waits := make([]int64, len(of))
	for i, a := range of {
		waits[i] = a.began - a.at
	}
	slices.Sort(waits)
	return float64(waits[int(part*float64(len(waits)-1)+0.5)]) / 60
}

// sizes are kinds of jobs with separate waiting times.
var sizes = [...]struct {
	name string
	is   func(a *arrived) bool
}{
	{"none", func(a *arrived) bool { return a.GPUs == 0 }},
	{"share", func(a *arrived) bool { return a.GPUs == 1 && a.MilliGPU < trace.WholeGPU }},
	{"1", func(a *arrived) bool { return a.GPUs == 1 && a.MilliGPU == trace.WholeGPU }},
	{"2", func(a *arrived) bool { return a.GPUs == 2 }},
	{"4", func(a *arrived) bool { return a.GPUs == 4 }},
	{"8", func(a *arrived) bool { return a.GPUs == 8 }},
}

// loads are the requested parts of the GPUs over the whole time: two at which nodes can be empty, and two at which tasks
// wait.
var loads = []float64{0.3, 0.6, 0.85, 0.92}

func printWaits(seeds int) {
	for _, load := range loads {
		fmt.Printf("\n%.0f %% of the GPUs of every %dth node are asked for (mean of %d streams): wait in minutes p50 / p99 by GPUs; GPUs held; "+
			"nodes empty, GPUs on empty nodes, %%; kW with empty nodes on / off\n%-40s", 100*load, *scale, seeds, "")
		for _, size := range sizes {
			fmt.Printf(" %15s", size.name)
		}
		fmt.Printf(" %7s %7s %7s %13s\n", "held", "empty", "on them", "kW")
		for _, p := range placers {
			printWaitsOf(p.name, load, seeds, p.make)
		}
	}
}

func printWaitsOf(name string, load float64, seeds int, make func(jobs []job) placer) {
	fmt.Printf("%-40s", name)
	var sum figures
	var waits [len(sizes)][2]float64
	for seed := range seeds {
		f := simulate(*scale, load, false, int64(42+seed), make, nil)
		for i, size := range sizes {
			of := slices.DeleteFunc(slices.Clone(f.waits), func(a *arrived) bool { return !size.is(a) })
			waits[i][0] += wait(of, 0.5) / float64(seeds)
			waits[i][1] += wait(of, 0.99) / float64(seeds)
		}
		sum.add(&f, 1/float64(seeds))
	}
	for _, w := range waits {
		fmt.Printf(" %6.0f / %6.0f", w[0], w[1])
	}
	fmt.Printf(" %7.2f %7.2f %7.2f %6.1f / %4.1f\n", sum.held, sum.empty, sum.emptyGPUs, sum.on, sum.off)
}

// planners hold room for jobs that wait.
var planners = []struct {
	name string
	planner
}{
	{"nothing held", nil},
	{"held, nothing in between", &reservations{most: 1, ends: knownEnd, lasts: noTime}},
	{"EASY, times known", &reservations{most: 1, ends: knownEnd, lasts: knownTime}},
	{"EASY, wrong by up to 3", &reservations{most: 1, ends: wrongEnd, lasts: wrongTime}},
	{"wrong by up to 3, 3 times as long in between", &reservations{most: 1, ends: wrongEnd, lasts: func(j *job) int64 { return 3 * wrongTime(j) }}},
	{"times unknown", &reservations{most: 1, ends: endByAge, lasts: noTime}},
	{"after 5 min, times known", &reservations{most: 4, after: 300, ends: knownEnd, lasts: knownTime}},
	{"after 5 min, wrong by up to 3", &reservations{most: 4, after: 300, ends: wrongEnd, lasts: wrongTime}},
	{"after 5 min, times unknown", &reservations{most: 4, after: 300, ends: endByAge, lasts: noTime}},
}

// waitingLoad is a load at which gangs wait.
const waitingLoad = 0.9

func printQueues(seeds int) {
	fmt.Printf("\nGangs, %.0f %% of the GPUs of every %dth node are asked for (mean of %d streams): wait in minutes p50 / p99 of the tenth of the jobs "+
		"that asks for most GPUs; of the hundredth; of all; GPUs held, %%\n", 100*waitingLoad, *scale, seeds)
	for _, p := range planners {
		var waits [3][2]float64
		held := 0.0
		for seed := range seeds {
			f := simulate(*scale, waitingLoad, true, int64(42+seed), bestFits, p.planner)
			for i, of := range [][]*arrived{largest(f.waits, 10), largest(f.waits, 100), f.waits} {
				waits[i][0] += wait(of, 0.5) / float64(seeds)
				waits[i][1] += wait(of, 0.99) / float64(seeds)
			}
			held += f.held / float64(seeds)
		}
		fmt.Printf("%-46s", p.name)
		for _, w := range waits {
			fmt.Printf(" %7.1f / %7.1f", w[0], w[1])
		}
		fmt.Printf("  %.2f\n", held)
	}
}

func bestFits([]job) placer { return &scored{policy: bestFit{}} }

// largest returns the jobs with the largest requests among those with GPUs: one part-th of them (a tenth for 10).
func largest(of []*arrived, part int) []*arrived {
	of = slices.DeleteFunc(slices.Clone(of), func(a *arrived) bool { return a.GPUs == 0 })
	slices.SortStableFunc(of, func(a, b *arrived) int { return cmp.Compare(b.asked(), a.asked()) })
	return of[:(len(of)+part-1)/part]
}
