package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// nearPolicy chooses a node and devices for an ask.
type nearPolicy func(w *nearWorld, ask int) (node int, devices []int, ok bool)

// nearPolicies are made again for each run.
var nearPolicies = []struct {
	name string
	make func() nearPolicy
}{
	{"first-fit, on the emptiest node", func() nearPolicy {
		return firstDevices(func(n *nearNode, w *nearWorld) int { return -n.count(w.devices, gpuDriver) })
	}},
	{"first-fit, on the fullest node", func() nearPolicy {
		return firstDevices(func(n *nearNode, w *nearWorld) int { return n.count(w.devices, gpuDriver) })
	}},
	{"smallest group that suffices, then the fullest node", func() nearPolicy { return smallestGroup }},
	{"ours", func() nearPolicy { return newNearOurs().choose }},
}

// firstDevices takes the allocator's first solution, as upstream does. It chooses the node with the least score, the first of
// equals: kube-scheduler's default scores prefer the emptiest node, if pods ask for CPU and memory in proportion to their GPUs.
func firstDevices(score func(n *nearNode, w *nearWorld) int) nearPolicy {
	return func(w *nearWorld, ask int) (int, []int, bool) {
		best, least := -1, 0
		for i := range w.nodes {
			if n := &w.nodes[i]; w.fits(n, &w.asks[ask]) {
				if s := score(n, w); best < 0 || s < least {
					best, least = i, s
				}
			}
		}
		if best < 0 {
			return 0, nil, false
		}
		return best, w.solve(ask, best, nil), true
	}
}

// solve returns the allocator's devices on a node that has enough.
func (w *nearWorld) solve(ask, node int, objective *allocator.Objective) (devices []int) {
	site := w.nodes[node].site
	site.Objective = objective
	outcome, err := w.tasks[ask].Solve(context.Background(), site)
	if err != nil || !outcome.Fits() {
		log.Panicf("no devices on node %d where there are some: %v", node, err)
	}
	for _, r := range outcome.Results[0].Devices.Results {
		devices = append(devices, slices.IndexFunc(w.devices, func(d nearDevice) bool { return d.name == r.Device }))
	}
	return devices
}

// smallestGroup is a hand-written rule for this world: it takes the closest group that has enough. Among several it prefers the
// group with the fewest devices left, and then the group on the fullest node.
func smallestGroup(w *nearWorld, ask int) (node int, devices []int, ok bool) {
	a := &w.asks[ask]
	var least [3]int
	for i := range w.nodes {
		n := &w.nodes[i]
		if !w.fits(n, a) {
			continue
		}
		level, left, list := w.closest(n, a)
		cost := [3]int{level, left, n.count(w.devices, gpuDriver)}
		if !ok || slices.Compare(cost[:], least[:]) < 0 {
			node, devices, ok, least = i, list, true, cost
		}
	}
	return node, devices, ok
}

// closest returns devices of the smallest group that has enough, the number of free devices in that group, and its level. The group
// is the whole node if no other group has enough.
func (w *nearWorld) closest(n *nearNode, a *nearAsk) (level, size int, devices []int) {
	for level = range w.levels {
		for group := range w.devices {
			list, free := w.takeFrom(n, a, func(d *nearDevice) bool { return d.group[level] == group })
			if len(list) == a.gpus+a.nics && (devices == nil || free < size) {
				devices, size = list, free
			}
		}
		if devices != nil {
			return level, size, devices
		}
	}
	devices, size = w.takeFrom(n, a, func(*nearDevice) bool { return true })
	return len(w.levels), size, devices
}

// takeFrom takes the devices of an ask from the free devices, and returns the number of free devices.
func (w *nearWorld) takeFrom(n *nearNode, a *nearAsk, among func(*nearDevice) bool) (devices []int, free int) {
	missing := map[string]int{gpuDriver: a.gpus, nicDriver: a.nics}
	for i := range w.devices {
		d := &w.devices[i]
		if !n.free[i] || !among(d) {
			continue
		}
		free++
		if missing[d.driver] > 0 {
			missing[d.driver]--
			devices = append(devices, i)
		}
	}
	return devices, free
}

// nearOurs is the scheduler's choice: the node with the least value, and the plan with that value. It learns from the pods.
type nearOurs struct {
	history   *placement.Histogram
	objective *allocator.Objective
	now       time.Time
	rated     map[[2]int]rating // by ask and node
}

// rating is the value of the best plan on a node. It is valid while neither the node nor the demand changes.
type rating struct {
	version   int
	objective *allocator.Objective
	value     allocator.Value
	fits      bool
}

func newNearOurs() *nearOurs {
	return &nearOurs{history: placement.NewHistogram(), now: time.Unix(0, 0), rated: map[[2]int]rating{}}
}

// saw counts a pod as the plugin does, one a second.
func (o *nearOurs) saw(w *nearWorld, ask int) {
	o.now = o.now.Add(time.Second)
	o.history.Add(placement.Pod{Namespace: "default", Asks: w.tasks[ask].Asks(context.Background(), w.nodes[0].site.Pools)}, o.now)
	if d := o.history.Demand(o.now, 0); o.objective == nil || o.objective.Demand != d {
		o.objective = &allocator.Objective{Demand: d, Closeness: w.levels[:]}
	}
}

func (o *nearOurs) choose(w *nearWorld, ask int) (node int, devices []int, ok bool) {
	o.saw(w, ask)
	var least allocator.Value
	for i := range w.nodes {
		if r := o.rate(w, ask, i); r.fits && (!ok || r.value.Compare(least) < 0) {
			node, least, ok = i, r.value, true
		}
	}
	if !ok {
		return 0, nil, false
	}
	return node, w.solve(ask, node, o.objective), true
}

func (o *nearOurs) rate(w *nearWorld, ask, node int) rating {
	n, key := &w.nodes[node], [2]int{ask, node}
	if r, known := o.rated[key]; known && r.version == n.version && r.objective == o.objective {
		return r
	}
	site := n.site
	site.Objective = o.objective
	outcome, err := w.tasks[ask].Rate(context.Background(), site)
	if err != nil {
		log.Panicf("node %d was not rated: %v", node, err)
	}
	defer outcome.Release()
	r := rating{version: n.version, objective: o.objective, value: outcome.Value, fits: outcome.Fits()}
	o.rated[key] = r
	return r
}

const nearSteps = 8000

// nearHeld are the parts of the GPUs that are held.
var nearHeld = []float64{0.7, 0.85, 0.95}

// printNear prints, for asks whose devices belong together, the share that gets them together, and for the largest ask the share
// that is refused.
func printNear(seeds int) {
	for i := range near {
		of := &near[i]
		fmt.Printf("\n%s, %v of the GPUs held: of the requests, %%\n%-54s", of.name, nearHeld, "")
		for _, a := range of.asks {
			if a.level >= 0 {
				fmt.Printf(" %24s", a.name)
			}
		}
		fmt.Printf(" %24s\n", of.asks[len(of.asks)-1].name+" refused")
		for _, p := range nearPolicies {
			fmt.Printf("%-54s", p.name)
			columns := make([]string, len(of.asks))
			for _, held := range nearHeld {
				counts := of.mean(held, nearSteps, seeds, p.make)
				for ask := range of.asks {
					columns[ask] += fmt.Sprintf(" %6.1f", counts[ask])
				}
			}
			for ask, text := range columns {
				if of.asks[ask].level >= 0 || ask == len(of.asks)-1 {
					fmt.Printf(" %24s", text)
				}
			}
			fmt.Println()
		}
	}
}

// mean returns, for each ask, the percentage of requests that are together, or the percentage that is refused if closeness does not
// matter.
func (of *nearby) mean(held float64, steps, seeds int, policy func() nearPolicy) []float64 {
	parts := make([]float64, len(of.asks))
	for seed := range seeds {
		for ask, c := range of.play(held, steps, int64(seed), policy()) {
			n := c.refused
			if of.asks[ask].level >= 0 {
				n = c.together
			}
			parts[ask] += 100 * float64(n) / float64(max(1, c.asked)) / float64(seeds)
		}
	}
	return parts
}
