package main

import (
	"math/bits"
	"math/rand"
	"slices"
	"time"

	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// profile is a MIG profile of an H100 as its driver publishes it.
type profile struct {
	name            string
	slices          int // of memory, of 8
	multiprocessors int // of 132
	size            float64
	starts          []int   // placements, by their first memory slice
	part            float64 // of the requests
}

// profiles are in the order of the driver. The whole GPU is no profile, but published beside them.
var profiles = []profile{
	{"gpu", 8, 132, 1, []int{0}, 0},
	{"1g.10gb", 1, 16, 1.0 / 7, []int{0, 1, 2, 3, 4, 5, 6}, 0.35},
	{"1g.20gb", 2, 26, 0.25, []int{0, 2, 4, 6}, 0.1},
	{"2g.20gb", 2, 32, 2.0 / 7, []int{0, 2, 4}, 0.2},
	{"3g.40gb", 4, 60, 0.5, []int{0, 4}, 0.2},
	{"4g.40gb", 4, 64, 4.0 / 7, []int{0}, 0.1},
	{"7g.80gb", 8, 132, 1, []int{0}, 0.05},
}

// places are the memory slices that placements take, each set once.
var places = func() (list []uint64) {
	for i := range profiles {
		for _, start := range profiles[i].starts {
			if mask := uint64(profiles[i].mask(start)); !slices.Contains(list, mask) {
				list = append(list, mask)
			}
		}
	}
	return list
}()

const (
	large          = 4 // profiles from this one on are large requests
	gpusOfNode     = 8
	slicesOfGPU    = 8
	multiprocessor = 132
)

// gpu holds the parts of a GPU that are in use.
type gpu struct {
	slices          uint8
	multiprocessors int
}

func (g *gpu) fits(p *profile, start int) bool {
	return g.slices&p.mask(start) == 0 && g.multiprocessors+p.multiprocessors <= multiprocessor
}

func (p *profile) mask(start int) uint8 { return uint8((1<<p.slices - 1) << start) }

type tenant struct {
	gpu, profile, start int
	came, leaves        int
}

// migNode is a node of 8 GPUs whose partitions come and go.
type migNode struct {
	gpus    [gpusOfNode]gpu
	tenants []tenant
}

func (n *migNode) put(t tenant) {
	g, p := &n.gpus[t.gpu], &profiles[t.profile]
	g.slices |= p.mask(t.start)
	g.multiprocessors += p.multiprocessors
	n.tenants = append(n.tenants, t)
}

func (n *migNode) remove(i int) {
	t := n.tenants[i]
	g, p := &n.gpus[t.gpu], &profiles[t.profile]
	g.slices &^= p.mask(t.start)
	g.multiprocessors -= p.multiprocessors
	n.tenants[i] = n.tenants[len(n.tenants)-1]
	n.tenants = n.tenants[:len(n.tenants)-1]
}

func (n *migNode) used() int {
	used := 0
	for _, g := range n.gpus {
		used += bits.OnesCount8(g.slices)
	}
	return used
}

func (n *migNode) empty() int {
	empty := 0
	for _, g := range n.gpus {
		if g.slices == 0 {
			empty++
		}
	}
	return empty
}

// repacked returns the number of GPUs that would be empty after placing all tenants again, the largest first.
func (n *migNode) repacked() int {
	var other migNode
	for size := len(profiles) - 1; size >= 0; size-- {
		for _, t := range n.tenants {
			if t.profile != size {
				continue
			}
			if at, ok := other.choose(size, firstOf); ok {
				other.put(at)
			} else {
				return n.empty()
			}
		}
	}
	return max(n.empty(), other.empty())
}

// choose returns the placement with the least cost, the first of equals.
func (n *migNode) choose(wanted int, cost func(n *migNode, t tenant) float64) (best tenant, ok bool) {
	least := 0.0
	for g := range n.gpus {
		for _, start := range profiles[wanted].starts {
			if !n.gpus[g].fits(&profiles[wanted], start) {
				continue
			}
			t := tenant{gpu: g, profile: wanted, start: start}
			if c := cost(n, t); !ok || c < least-placement.Epsilon {
				best, least, ok = t, c, true
			}
		}
	}
	return best, ok
}

func firstOf(*migNode, tenant) float64 { return 0 }

// fewestBlocked uses GPUs that are in use first, then blocks as few of the published placements as possible, by their size.
func fewestBlocked(n *migNode, t tenant) float64 {
	cost := 0.0
	if n.gpus[t.gpu].slices == 0 {
		cost = 1000
	}
	after := n.gpus[t.gpu]
	after.slices |= profiles[t.profile].mask(t.start)
	after.multiprocessors += profiles[t.profile].multiprocessors
	for i := range profiles {
		for _, start := range profiles[i].starts {
			if n.gpus[t.gpu].fits(&profiles[i], start) && !after.fits(&profiles[i], start) {
				cost += profiles[i].size
			}
		}
	}
	return cost
}

// migState converts the node into the objective's state.
func migState(n *migNode, s *placement.State) {
	s.MilliCPU, s.Memory, s.Devices = -1, -1, s.Devices[:0]
	var holders [gpusOfNode]int32
	for _, t := range n.tenants {
		holders[t.gpu]++
	}
	s.Holders = append(s.Holders[:0], holders[:]...)
	s.Takes = append(s.Takes[:0], 0)
	for range n.gpus {
		s.Takes = append(s.Takes, places...)
	}
	for g := range n.gpus {
		for i := range profiles {
			for _, start := range profiles[i].starts {
				place := slices.Index(places, uint64(profiles[i].mask(start)))
				d := placement.Device{Kinds: 1 | 2<<i, Unit: int32(g), Place: int32(g*len(places) + place + 1), Size: profiles[i].size}
				if n.gpus[g].fits(&profiles[i], start) {
					d.Free = d.Size
				}
				s.Devices = append(s.Devices, d)
			}
		}
	}
}

// ourMIG applies the objective to the node, with the demand that it has learnt.
type ourMIG struct {
	history *placement.Histogram
	demand  *placement.Demand
	state   placement.State
	scratch placement.Scratch
	tenants []tenant
}

// learn counts a request. The index of a kind is that of its profile.
func (o *ourMIG) learn(wanted int, now int) {
	at := time.Unix(int64(now), 0)
	o.history.Add(placement.Pod{Asks: []placement.Ask{{Kind: string(rune('a' + wanted)), Count: 1}}}, at)
	learnt := o.history.Demand(at, 0)
	index := make([]int, len(learnt.Kinds))
	for i, k := range learnt.Kinds {
		if k != placement.AnyDevice {
			index[i] = int(k[0]-'a') + 1
		}
	}
	o.demand = &placement.Demand{Version: learnt.Version, Shapes: append([]placement.Shape(nil), learnt.Shapes...)}
	for i := range o.demand.Shapes {
		r := o.demand.Shapes[i].Requests[0]
		r.Kind = index[r.Kind]
		o.demand.Shapes[i].Requests = []placement.Request{r}
	}
}

func (o *ourMIG) cost(n *migNode, t tenant) float64 {
	c := migNode{gpus: n.gpus, tenants: append(o.tenants[:0], n.tenants...)}
	c.put(t)
	o.tenants = c.tenants
	migState(&c, &o.state)
	v := o.demand.Assess(&o.state, &o.scratch)
	return v.Left - v.Usable
}

// churn holds the results while a constant part of the memory was held.
type churn struct {
	free, refused float64 // in %: of the GPUs that repacking would free; of the large requests
}

// playMIG lets partitions come and go. Departures are by chance, or, if lifetimes are alike, mostly in the order of arrival.
func playMIG(held float64, seed int64, alike bool, policy func(*migNode, tenant) float64, learn func(wanted, now int)) churn {
	const steps, warm = 8000, 1000
	rng := rand.New(rand.NewSource(seed))
	var n migNode
	empty, possible, asked, refused := 0, 0, 0, 0
	for now := range steps {
		if float64(n.used()) < held*gpusOfNode*slicesOfGPU {
			wanted, draw := 0, rng.Float64()
			for wanted = range profiles {
				if draw -= profiles[wanted].part; draw < 0 {
					break
				}
			}
			learn(wanted, now)
			t, ok := n.choose(wanted, policy)
			if ok {
				t.came, t.leaves = now, now+100+rng.Intn(100)
				n.put(t)
			}
			if wanted >= large && now >= warm {
				asked++
				if !ok {
					refused++
				}
			}
			if !ok && alike {
				continue
			}
		} else {
			i := rng.Intn(len(n.tenants))
			if alike {
				for j := range n.tenants {
					if n.tenants[j].leaves < n.tenants[i].leaves {
						i = j
					}
				}
			}
			n.remove(i)
		}
		if now >= warm {
			empty += n.empty()
			possible += n.repacked()
		}
	}
	return churn{100 * float64(empty) / float64(max(1, possible)), 100 * float64(refused) / float64(max(1, asked))}
}
