// Sim runs placement policies: first-fit, policies of the literature, and pkg/placement. It prints tables, and with -svg writes a
// plot of the allocated capacity over the requested capacity.
//
// Each world is a plain model: a node consists of its free CPU, memory and devices, and a pod is placed or refused at once. With
// -departures and -queues, tasks wait, in virtual time, and leave when their time is over. test/placement plays the trace with the
// scheduler itself.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"

	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

var (
	seeds     = flag.Int("seeds", 3, "how many orders of arrival, from seed 42 on")
	scale     = flag.Int("scale", 1, "take every n-th node of the trace")
	brief     = flag.Bool("brief", false, "only the trace itself, without variants")
	mig       = flag.Bool("mig", false, "only partitions")
	closeness = flag.Bool("near", false, "only how close devices are")
	departing = flag.Bool("departures", false, "only tasks that arrive, wait and leave again")
	queueing  = flag.Bool("queues", false, "only gangs that wait, with room held for them in several ways")
	plot      = flag.String("svg", "", "write a plot of the trace's run with seed 42 to this file")
)

// player is a policy on the trace, made again for each run.
type player struct {
	name string
	make func(tasks []task) policy
	// plain means that kube-scheduler's scores place tasks without GPU.
	plain bool
}

var players = []player{
	{"first-fit", func([]task) policy { return firstFit{} }, true},
	{"best fit", func([]task) policy { return bestFit{} }, false},
	{"FGD", func(tasks []task) policy {
		return &gradient{shapes: typicalOf(tasks), rng: rand.New(rand.NewSource(1))}
	}, false},
	{"FGD, best fit", func(tasks []task) policy { return &gradient{shapes: typicalOf(tasks)} }, false},
	{"ours", func([]task) policy { return newOurs() }, false},
	{"FGD, best fit *", func(tasks []task) policy { return &gradient{shapes: typicalOf(tasks)} }, true},
	{"ours *", func([]task) policy { return newOurs() }, true},
}

func main() {
	flag.Parse()
	log.SetFlags(0)
	all := !*mig && !*closeness && !*departing && !*queueing
	if all {
		printTrace(*seeds)
	}
	if all || *mig {
		printMIG(*seeds)
	}
	if all || *closeness {
		printNear(*seeds)
	}
	if *departing {
		printWaits(*seeds)
	}
	if *queueing {
		printQueues(*seeds)
	}
	if *plot != "" {
		if err := os.WriteFile(*plot, []byte(draw()), 0o644); err != nil {
			log.Fatalf("the plot was not written: %v", err)
		}
	}
}

func printTrace(seeds int) {
	played := variants
	if *brief {
		played = variants[:1]
	}
	fmt.Printf("GPU capacity allocated when 130 %% of it were asked for, %% (mean of %d orders of arrival)\n", seeds)
	fmt.Println("* tasks without GPU go where kube-scheduler's default scores send them, as with manifests/secondary")
	fmt.Printf("%-54s", "")
	for _, p := range players {
		fmt.Printf(" %15s", p.name)
	}
	fmt.Println()
	for i := range played {
		fmt.Printf("%-54s", played[i].name)
		for _, p := range players {
			sum := 0.0
			for seed := range seeds {
				c := p.play(&played[i], *scale, int64(42+seed))
				sum += c[130]
			}
			fmt.Printf(" %15.2f", sum/float64(seeds))
		}
		fmt.Println()
	}
}

func (p player) play(v *variant, scale int, seed int64) curve {
	nodes, tasks := v.draw(scale, seed)
	c := play(nodes, tasks, p.make(tasks), p.plain)
	for len(c) <= 130 { // rounding: one task fewer was drawn
		c = append(c, c[len(c)-1])
	}
	return c
}

// migPolicies are made again for each run.
var migPolicies = []struct {
	name string
	make func() (cost func(*migNode, tenant) float64, learn func(wanted, now int))
}{
	{"first-fit", func() (func(*migNode, tenant) float64, func(int, int)) { return firstOf, func(int, int) {} }},
	{"used GPUs first, then fewest blocked", func() (func(*migNode, tenant) float64, func(int, int)) {
		return fewestBlocked, func(int, int) {}
	}},
	{"ours", func() (func(*migNode, tenant) float64, func(int, int)) {
		o := &ourMIG{history: placement.NewHistogram()}
		return o.cost, o.learn
	}},
}

func printMIG(seeds int) {
	fmt.Println("\n8 H100 with every MIG placement, memory held at 0.50, 0.70, 0.85: whole GPUs free, % of what repacking would free / requests for 3g and up refused, %")
	for _, p := range migPolicies {
		fmt.Printf("%-54s", p.name)
		for _, held := range []float64{0.5, 0.7, 0.85} {
			var sum churn
			for seed := range seeds {
				cost, learn := p.make()
				c := playMIG(held, int64(seed), false, cost, learn)
				sum.free += c.free / float64(seeds)
				sum.refused += c.refused / float64(seeds)
			}
			fmt.Printf("   %5.1f / %4.1f", sum.free, sum.refused)
		}
		fmt.Println()
	}
}
