package allocator_test

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// draws are the decisions of a generator, a byte each: first those given, then
// those of a seeded stream. Changing one given byte changes one decision, which is
// what lets a fuzzer learn from the coverage of its inputs.
type draws struct {
	given []byte
	rest  *rand.PCG
	// made holds all bytes used so far. Another generator with these bytes makes the same scenario,
	// regardless of the seed.
	made []byte
}

func newDraws(seed int64, given []byte) *draws {
	return &draws{given: given, rest: rand.NewPCG(uint64(seed), 0)}
}

// Intn returns a number from 0 to n-1, for n up to 256.
func (d *draws) Intn(n int) int {
	var b byte
	if len(d.given) > 0 {
		b, d.given = d.given[0], d.given[1:]
	} else {
		b = byte(d.rest.Uint64())
	}
	d.made = append(d.made, b)
	return int(b) % n
}

func (d *draws) oneIn(n int) bool { return d.Intn(n) == 0 }

func pick[T any](g *generator, options ...T) T { return options[g.Intn(len(options))] }

// generator makes random scenarios that are small enough for a search without any
// pruning, and odd enough to meet most combinations of features.
type generator struct {
	*draws
	s scenario
	// Settings of a whole scenario: whether it contains things that are invalid to publish or request,
	// whether most devices of a pool are equal, and which features matter.
	odd, uniform, groups, capacity, derived bool
	// choosy makes claims that can often be met in one way only: all devices, alternatives, constraints and
	// admin access together.
	choosy bool
	last   *b.DeviceBuilder // device of the current pool
}

func fromSeed(seed int64) scenario { return newGenerator(seed, nil).scenario() }

func choosyFromSeed(seed int64) scenario {
	g := newGenerator(seed, nil)
	g.choosy = true
	s := g.scenario()
	s.asAPI = true
	return s
}

func largeFromSeed(seed int64) scenario { return newGenerator(seed, nil).largeScenario() }

func newGenerator(seed int64, given []byte) *generator {
	return &generator{draws: newDraws(seed, given)}
}

// oddly is true one in n times in odd scenarios, and never in others.
func (g *generator) oddly(n int) bool { return g.odd && g.oneIn(n) }

const (
	attr     = `device.attributes["gpu.example.com"]`
	isBig    = `"model" in ` + attr + ` && ` + attr + `.model == "big"`
	isSmall  = `"model" in ` + attr + ` && ` + attr + `.model == "small"`
	isNumaOf = attr + `.numa == 0` // fails for devices without the attribute
)

func (g *generator) scenario() scenario {
	g.start()
	if g.oneIn(40) {
		g.wide()
		return g.s
	}
	g.groups, g.capacity, g.derived = g.oneIn(3), g.oneIn(2), g.oneIn(3)
	for i := range 1 + g.Intn(3) {
		g.s.slices = append(g.s.slices, g.pool(i)...)
	}
	g.shuffle()
	g.use()
	for i := range 1 + g.Intn(2) {
		g.s.claims = append(g.s.claims, g.claim(i))
	}
	return g.s
}

// start makes everything that does not depend on the size of a scenario.
func (g *generator) start() {
	g.odd, g.uniform = g.oneIn(3), g.oneIn(3)
	g.s = scenario{
		features: g.features(),
		node:     b.Node("node-0", "zone", pick(g, "1", "1", "1", "2"), "rack", pick(g, "a", "a", "a", "b")),
		classes: classList(b.Class("any"), b.Class("big", isBig), b.Class("small", isSmall),
			b.Class("numa", isNumaOf), b.Class("broken", `device.driver ==`)),
		state: structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
	}
	for _, name := range []string{"any", "small"} {
		if g.oneIn(3) {
			g.s.classes[name].Spec.Config = configuredClass(name, "driver-"+name, "driver-2").Spec.Config
		}
	}
	if g.oneIn(2) {
		g.s.node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	}
}

func (g *generator) shuffle() {
	for i := range g.s.slices {
		j := i + g.Intn(len(g.s.slices)-i)
		g.s.slices[i], g.s.slices[j] = g.s.slices[j], g.s.slices[i]
	}
}

var someFeatures = structured.Features{
	AdminAccess: true, DeviceTaints: true, PartitionableDevices: true, PrioritizedList: true,
}

// features are usually on, but sometimes only those that no scenario can do without.
func (g *generator) features() structured.Features {
	if g.oneIn(6) {
		features := someFeatures
		features.ListTypeAttributes = g.oneIn(2)
		return features
	}
	return structured.Features{
		AdminAccess: !g.oneIn(40), CompatibilityGroups: !g.oneIn(10), ConsumableCapacity: !g.oneIn(20),
		DerivedAttributes: !g.oneIn(30), DeviceBindingAndStatus: !g.oneIn(4), DeviceTaints: !g.oneIn(15),
		FractionalCapacityRange: !g.oneIn(4), ListTypeAttributes: g.oneIn(2), OptionalNodeOperations: !g.oneIn(8),
		PartitionableDevices: !g.oneIn(30), PrioritizedList: !g.oneIn(40),
	}
}

// wide makes a scenario at the limit of 32 devices a claim. Its devices are plain:
// upstream would take too long to find out that others do not fit.
func (g *generator) wide() {
	g.s.slices = []*resourceapi.ResourceSlice{b.Slice("wide").OnNode("node-0").Devices(b.NumberedDevices("dev", 36)...).Obj()}
	var requests []*b.RequestBuilder
	for i := range 1 + g.Intn(3) {
		var alternatives []*b.RequestBuilder
		for j := range 1 + g.Intn(3) {
			alternative := b.Request(fmt.Sprintf("s%d", j), "any").Count(pick(g, int64(1), 4, 10, 12, 16, 20, 22))
			if g.oneIn(10) {
				alternative.All()
			}
			alternatives = append(alternatives, alternative)
		}
		requests = append(requests, b.FirstAvailable(fmt.Sprintf("r%d", i), alternatives...))
	}
	g.s.claims = []*resourceapi.ResourceClaim{b.Claim("claim-0", requests...).Obj()}
}

// pool makes the slices of one pool: usually one, sometimes several, sometimes
// with counters, an older generation, or something wrong.
func (g *generator) pool(index int) []*resourceapi.ResourceSlice {
	g.last = nil
	name := fmt.Sprintf("pool-%d", index)
	driver := pick(g, b.Driver, b.Driver, b.Driver, b.Driver, b.Driver, "nic.example.com")
	if driver != b.Driver {
		// Perhaps the name of another driver's pool: names are unique within a driver.
		name = fmt.Sprintf("pool-%d", (index+1)%3)
	}
	parts := pick(g, 1, 1, 1, 2)
	withCounters := g.oneIn(3)
	total := int64(parts)
	if withCounters {
		total++
	}
	generation := int64(1 + g.Intn(2))
	var slices []*resourceapi.ResourceSlice
	add := func(suffix string, build func(*b.SliceBuilder)) {
		if g.oddly(12) {
			return // Not published (yet): the pool is incomplete.
		}
		slice := b.Slice(driver+name+suffix).OfDriver(driver).InPool(name, generation, total)
		g.reach(slice)
		build(slice)
		if g.oneIn(20) {
			slice.Modify(func(s *resourceapi.ResourceSlice) {
				s.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"PrepareUnprepare"}
			})
		}
		slices = append(slices, slice.Obj())
	}
	if withCounters {
		add("-counters", func(s *b.SliceBuilder) {
			s.Counters("set-0", "memory", "4", "engines", "3").Counters("set-1", "memory", "2")
			if g.oddly(20) {
				s.Counters("set-1", "memory", "1") // Twice.
			}
		})
	}
	for part := range parts {
		add(fmt.Sprintf("-%d", part), func(s *b.SliceBuilder) {
			for i := range pick(g, 1, 2, 2, 3, 3, 4, 4, 5) {
				s.Devices(g.device(fmt.Sprintf("dev-%d-%d", part, i), withCounters))
			}
		})
	}
	if g.oneIn(8) {
		old := b.Slice(driver+name+"-old").OfDriver(driver).InPool(name, generation-1, pick(g, int64(1), 2)).
			Devices(g.device("old", false))
		g.reach(old)
		slices = append(slices, old.Obj())
	}
	return slices
}

func (g *generator) reach(s *b.SliceBuilder) {
	switch g.Intn(16) {
	case 0:
		s.OnNode("node-1")
	case 1, 2:
		s.OnAllNodes()
	case 3, 4:
		s.OnLabeled("zone", "1")
		if g.oddly(10) {
			s.Modify(func(s *resourceapi.ResourceSlice) { addTerm(s.Spec.NodeSelector) })
		}
		if g.oddly(20) {
			s.Modify(func(s *resourceapi.ResourceSlice) { makeMalformed(s.Spec.NodeSelector) })
		}
	case 5:
		s.OnLabeled("rack", "a")
	case 6, 7:
		s.PerDevice()
	default:
		s.OnNode("node-0")
	}
}

// use lets other claims have some devices, or shares of them.
func (g *generator) use() {
	for _, d := range devicesIn(g.s.slices) {
		switch shared := ptr.Deref(d.AllowMultipleAllocations, false); {
		case !shared && g.oneIn(6), shared && g.oddly(6):
			g.s.state.AllocatedDevices.Insert(d.id())
		case shared && g.s.features.ConsumableCapacity && g.oneIn(4), g.oddly(20):
			// Odd: the device was shared once and is not any more, or the feature is off.
			g.share(d)
		}
	}
}
