package placement

import (
	"math"
	"math/rand"
	"testing"
)

const near = 1e-6

func gpus(free ...float64) []Device {
	var devices []Device
	for i, f := range free {
		devices = append(devices, Device{Kinds: 3, Unit: int32(i), Size: 1, Free: f})
	}
	return devices
}

func demand(shapes ...Shape) *Demand {
	return &Demand{Version: 1, Kinds: []string{AnyDevice, "gpu"}, Shapes: shapes}
}

func ask(weight float64, cpu int64, count int, amount float64) Shape {
	return Shape{Weight: weight, MilliCPU: cpu, Requests: []Request{{Kind: 1, Count: count, Amount: amount}}}
}

func cost(d *Demand, before, after State) float64 {
	return Cost(d.Assess(&before, nil), d.Assess(&after, nil))
}

// A share goes to the device whose rest fits likely requests.
func TestRestThatFitsIsKept(t *testing.T) {
	d := demand(ask(0.5, 0, 1, 0.65), ask(0.5, 0, 1, 0.35))
	before := State{MilliCPU: -1, Memory: -1, Devices: gpus(1, 0.65)}
	broken := cost(d, before, State{MilliCPU: -1, Memory: -1, Devices: gpus(0.65, 0.65)})
	exact := cost(d, before, State{MilliCPU: -1, Memory: -1, Devices: gpus(1, 0.3)})
	if broken >= exact {
		t.Errorf("35 %% of a free device costs %v, and %v where 65 %% are left; want it where the rest is of use", broken, exact)
	}
}

// A device of a node that never has enough for a request for several is taken before one of a node that is about to, and this before
// one that others leave later.
func TestDrainingNodesAreLeftAlone(t *testing.T) {
	d := demand(ask(0.7, 0, 1, 0), ask(0.3, 0, 4, 0))
	node := func(free ...float64) State { return State{MilliCPU: -1, Memory: -1, Devices: gpus(free...)} }
	small := cost(d, node(1, 1), node(0, 1))
	busy := cost(d, node(0, 0, 0, 1), node(0, 0, 0, 0))
	draining := cost(d, node(0, 1, 1, 1), node(0, 0, 1, 1))
	if small >= busy || busy >= draining {
		t.Errorf("a device costs %v where four never are, %v where three are in use, %v where one is", small, busy, draining)
	}
}

// A used device is taken before a free one if the demand is for whole ones.
func TestWholeDevicesAreKept(t *testing.T) {
	d := demand(ask(0.9, 0, 1, 0), ask(0.1, 0, 1, 0.25))
	before := State{MilliCPU: -1, Memory: -1, Devices: gpus(1, 0.5)}
	free := cost(d, before, State{MilliCPU: -1, Memory: -1, Devices: gpus(0.75, 0.5)})
	used := cost(d, before, State{MilliCPU: -1, Memory: -1, Devices: gpus(1, 0.25)})
	if used >= free {
		t.Errorf("a quarter of a used device costs %v, of a free one %v", used, free)
	}
}

// Groups of devices stay intact on a node that can still satisfy a request for all of them.
func TestGroupsAreKept(t *testing.T) {
	d := demand(ask(0.8, 0, 1, 0), ask(0.2, 0, 4, 0))
	node := func(free ...float64) State { return State{MilliCPU: -1, Memory: -1, Devices: gpus(free...)} }
	whole := cost(d, node(1, 1, 1, 1), node(0, 1, 1, 1))
	broken := cost(d, node(0, 1, 1, 1), node(0, 0, 1, 1))
	if broken >= whole {
		t.Errorf("one device of three costs %v, of four %v", broken, whole)
	}
}

// Devices are taken on nodes whose CPU is too short for them anyway.
func TestShortCPU(t *testing.T) {
	d := demand(ask(1, 10000, 1, 0))
	node := func(cpu int64, free ...float64) State {
		return State{MilliCPU: cpu, Memory: -1, Devices: gpus(free...)}
	}
	plenty := cost(d, node(40000, 1, 1), node(39000, 0, 1))
	short := cost(d, node(11000, 1, 1), node(10000, 0, 1))
	if short >= plenty {
		t.Errorf("a device costs %v on a node that has CPU for one of two, %v on one that has plenty", short, plenty)
	}
}

// Where pods without devices take a lot of CPU, devices that have little of it are taken first, although there is enough for them now.
func TestCPUThatOthersTake(t *testing.T) {
	d := demand(ask(1, 10000, 1, 0))
	gain := func(beside float64) float64 {
		d.Beside = beside
		node := func(cpu int64, free ...float64) State {
			return State{MilliCPU: cpu, Memory: -1, Devices: gpus(free...)}
		}
		return cost(d, node(80000, 1, 1), node(70000, 0, 1)) - cost(d, node(25000, 1, 1), node(15000, 0, 1))
	}
	if alone, crowded := gain(0), gain(2); crowded <= alone {
		t.Errorf("a device with little CPU costs %v less than one with plenty, %v less where others take CPU", alone, crowded)
	}
}

// partitions returns devices that are published whole, in halves, and in three of their quarters, the first
// of these under two names. Of device i the quarters held[i] are held, by holders[i].
func partitions(holders []int32, held ...[]int) State {
	s := State{MilliCPU: -1, Memory: -1, Holders: holders, Takes: []uint64{0}}
	for unit := range held {
		free := func(parts uint64) bool {
			for _, quarter := range held[unit] {
				if parts>>quarter&1 != 0 {
					return false
				}
			}
			return true
		}
		add := func(size float64, parts uint64, devices int) {
			s.Takes = append(s.Takes, parts)
			for range devices {
				d := Device{Kinds: 3, Unit: int32(unit), Place: int32(len(s.Takes) - 1), Size: size}
				if free(parts) {
					d.Free = size
				}
				s.Devices = append(s.Devices, d)
			}
		}
		add(1, 0b1111, 1)
		add(0.5, 0b0011, 1)
		add(0.5, 0b1100, 1)
		add(0.25, 0b0001, 2)
		add(0.25, 0b0010, 1)
		add(0.25, 0b0100, 1) // The last quarter is available only as part of a half.
	}
	return s
}

// Of two devices with the same partitions held, the one with fewer holders is more likely to be whole soon.
func TestWhoIsLeftByFewIsLeftAlone(t *testing.T) {
	d := demand(ask(1, 0, 1, 0))
	both := [][]int{{0, 1}, {0, 1}}
	before := partitions([]int32{1, 2}, both...)
	few := cost(d, before, partitions([]int32{2, 2}, []int{0, 1, 2}, both[1]))
	many := cost(d, before, partitions([]int32{1, 3}, both[0], []int{0, 1, 2}))
	if many >= few {
		t.Errorf("a quarter costs %v where two hold a part, %v where one does", many, few)
	}
	unknown := partitions(nil, both...)
	if got, want := d.Assess(&unknown, nil), partitions([]int32{1, 1}, both...); got != d.Assess(&want, nil) {
		t.Errorf("%+v if holders are not known, want one", got)
	}
}

// A place counts once, regardless of its number of names.
func TestPlacesCountOnce(t *testing.T) {
	d := demand(ask(1, 0, 1, 0))
	before := partitions([]int32{1}, []int{2, 3})
	double := cost(d, before, partitions([]int32{2}, []int{0, 2, 3}))
	single := cost(d, before, partitions([]int32{2}, []int{1, 2, 3}))
	if math.Abs(double-single) > 2*unbroken { // unbroken counts devices, not places.
		t.Errorf("a quarter that has two names costs %v, one that has one name %v", double, single)
	}
}

// A partition does not cut off parts that no other partition reaches, if there is another choice.
func TestPartsStayWithinReach(t *testing.T) {
	d := demand(ask(1, 0, 1, 0))
	before := partitions([]int32{1, 1}, []int{0, 1}, []int{2, 3})
	cuts := cost(d, before, partitions([]int32{2, 1}, []int{0, 1, 2}, []int{2, 3}))
	leaves := cost(d, before, partitions([]int32{1, 2}, []int{0, 1}, []int{0, 2, 3}))
	if leaves >= cuts {
		t.Errorf("a quarter costs %v if the one beside it can still be had, %v if not", leaves, cuts)
	}
}

// Held devices are worth nothing, and devices that no shape requests, or that never suffice, are useless.
func TestNothingUsable(t *testing.T) {
	one, three := demand(ask(1, 10000, 1, 0)), demand(ask(1, 10000, 3, 0))
	for _, test := range []struct {
		demand *Demand
		State
	}{
		{one, State{MilliCPU: -1, Memory: -1}},
		{one, State{MilliCPU: -1, Memory: -1, Devices: gpus(0, 0)}},
		{one, State{MilliCPU: -1, Memory: -1, Devices: gpus(0, 0.9)}},
		{one, State{MilliCPU: 9999, Memory: -1, Devices: gpus(1, 1)}},
		{one, State{MilliCPU: -1, Memory: -1, Devices: []Device{{Kinds: 1, Size: 1, Free: 1}, {Kinds: 1, Unit: 1, Size: 1, Free: 1}}}},
		{three, State{MilliCPU: -1, Memory: -1, Devices: gpus(1, 1)}},
	} {
		if v := test.demand.Assess(&test.State, nil); v.Usable != 0 {
			t.Errorf("%+v: %v usable, want nothing", test.State, v.Usable)
		}
	}
}

// The table of a device equals its definition, calculated in another way: by the use of each of the pods that come.
func TestTableAgainstDefinition(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 200 {
		var shapes []Shape
		rest := 1.0
		for range 1 + rng.Intn(4) {
			w := rest * rng.Float64()
			rest -= w
			shapes = append(shapes, ask(w, 0, 1, float64(rng.Intn(11))/10))
		}
		d := demand(shapes...)
		got := d.table(math.MaxUint64>>(64-len(shapes)), 3, steps)
		for part := 0; part <= steps; part += 10 {
			if want := definition(shapes, part); math.Abs(got.used[part]-want) > near {
				t.Fatalf("%+v: of %d %% are expected to be used %v, want %v", shapes, part, got.used[part], want)
			}
		}
	}
}

// definition is the expected maximum over patience pods, by the distribution of the maximum: each value
// counts with the probability that the maximum is at most this value, minus the probability that it is less.
func definition(shapes []Shape, part int) float64 {
	use := make([]float64, len(shapes))
	for i, s := range shapes {
		amount := int(math.Round(s.Requests[0].Amount * steps))
		if amount == 0 {
			amount = steps
		}
		if amount <= part {
			use[i] = float64(amount)/steps + definition(shapes, part-amount)
		}
	}
	expected := 0.0
	for i, u := range use {
		atMost, less := 1.0, 1.0
		seen := false
		for j, other := range use {
			seen = seen || other == u && j < i
			if other > u {
				atMost -= shapes[j].Weight
			}
			if other >= u {
				less -= shapes[j].Weight
			}
		}
		if !seen && u > 0 {
			expected += u * (math.Pow(max(0, atMost), patience) - math.Pow(max(0, less), patience))
		}
	}
	return expected
}

// The result does not depend on earlier calculations, even if tables were dropped in between.
func TestAssessForgetsNothing(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	var shapes []Shape
	for i := range 12 {
		shapes = append(shapes, ask(1.0/12, int64(1000*i), 1+i/9, float64(i%5)/5))
	}
	warm, scratch := demand(shapes...), &Scratch{}
	for range 5000 {
		s := State{MilliCPU: rng.Int63n(20000), Memory: -1}
		for i := range 4 {
			size := float64(1+rng.Intn(steps)) / steps
			s.Devices = append(s.Devices, Device{Kinds: uint64(1 + 2*rng.Intn(2)), Unit: int32(i), Size: size, Free: size * rng.Float64()})
		}
		if got, want := warm.Assess(&s, scratch), demand(shapes...).Assess(&s, nil); got != want {
			t.Fatalf("%+v: %+v, and %+v with a new demand", s, got, want)
		}
	}
}

func TestAssessDoesNotAllocate(t *testing.T) {
	d := demand(ask(0.5, 1000, 1, 0), ask(0.3, 1000, 1, 0.5), ask(0.2, 1000, 4, 0))
	s, scratch := State{MilliCPU: 8000, Memory: -1, Devices: gpus(1, 1, 0.5, 0, 1, 1, 0.25, 1)}, &Scratch{}
	if n := testing.AllocsPerRun(100, func() { d.Assess(&s, scratch) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkAssess(b *testing.B) {
	var shapes []Shape
	for i := range 32 {
		shapes = append(shapes, ask(1.0/32, int64(1000*i), 1, float64(i)/32))
	}
	d, scratch := demand(shapes...), &Scratch{}
	s := State{MilliCPU: 64000, Memory: -1, Devices: gpus(1, 1, 0.5, 0, 1, 1, 0.25, 1)}
	for b.Loop() {
		d.Assess(&s, scratch)
	}
}
