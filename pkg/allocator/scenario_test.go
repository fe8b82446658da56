package allocator_test

import (
	"fmt"
	"math/rand"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	b "github.com/quartermaster-dra/quartermaster/pkg/builder"
)

// scenario is a complete input of an allocator.
type scenario struct {
	seed     int64 // that a generator made it from
	features structured.Features
	state    structured.AllocatedState
	classes  classes
	slices   []*resourceapi.ResourceSlice
	node     *v1.Node
	claims   []*resourceapi.ResourceClaim
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}, name)
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func classList(list ...*resourceapi.DeviceClass) classes {
	c := make(classes)
	for _, class := range list {
		c[class.Name] = class
	}
	return c
}

var someFeatures = structured.Features{
	AdminAccess: true, DeviceTaints: true, PartitionableDevices: true, PrioritizedList: true,
}

const (
	attr     = `device.attributes["gpu.example.com"]`
	isBig    = `"model" in ` + attr + ` && ` + attr + `.model == "big"`
	isSmall  = `"model" in ` + attr + ` && ` + attr + `.model == "small"`
	isNumaOf = attr + `.numa == 0` // fails for devices without the attribute
)

// generator makes random scenarios that are small enough for a search without
// any pruning, and odd enough to meet most combinations of features.
type generator struct {
	*rand.Rand
	devices []structured.DeviceID
}

// one in n
func (g *generator) oneIn(n int) bool { return g.Intn(n) == 0 }

func pick[T any](g *generator, options ...T) T { return options[g.Intn(len(options))] }

func (g *generator) scenario() scenario {
	g.devices = nil
	s := scenario{
		features: someFeatures,
		node:     b.Node("node-0", "zone", pick(g, "1", "1", "2"), "rack", pick(g, "a", "a", "b")),
		classes: classList(b.Class("any"), b.Class("big", isBig), b.Class("small", isSmall),
			b.Class("numa", isNumaOf), b.Class("broken", `device.driver ==`)),
		state: structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
	}
	s.features.ListTypeAttributes = g.oneIn(4)
	if g.oneIn(15) {
		s.features.PartitionableDevices = false
	}
	if g.oneIn(15) {
		s.features.DeviceTaints = false
	}
	for _, name := range []string{"any", "small"} {
		if g.oneIn(3) {
			s.classes[name].Spec.Config = b.ConfiguredClass(name, "driver-"+name, "driver-2").Spec.Config
		}
	}
	for i := range 1 + g.Intn(3) {
		s.slices = append(s.slices, g.pool(i)...)
	}
	g.Shuffle(len(s.slices), func(i, j int) { s.slices[i], s.slices[j] = s.slices[j], s.slices[i] })
	for _, id := range g.devices {
		if g.oneIn(6) {
			s.state.AllocatedDevices.Insert(id)
		}
	}
	for i := range 1 + g.Intn(2) {
		s.claims = append(s.claims, g.claim(i))
	}
	return s
}

// pool makes the slices of one pool: usually one, sometimes several, sometimes
// with counters, an older generation, or something wrong.
func (g *generator) pool(index int) []*resourceapi.ResourceSlice {
	name := fmt.Sprintf("pool-%d", index)
	driver := pick(g, b.Driver, b.Driver, b.Driver, b.Driver, b.Driver, "nic.example.com")
	if driver != b.Driver {
		// Perhaps the name of another driver's pool: names are unique within a driver.
		name = fmt.Sprintf("pool-%d", (index+1)%3)
	}
	parts := pick(g, 1, 1, 1, 2)
	withCounters := g.oneIn(4)
	total := int64(parts)
	if withCounters {
		total++
	}
	generation := int64(1 + g.Intn(2))
	var slices []*resourceapi.ResourceSlice
	add := func(suffix string, build func(*b.SliceBuilder)) {
		if g.oneIn(25) {
			return // Not published (yet): the pool is incomplete.
		}
		slice := b.Slice(driver+name+suffix).OfDriver(driver).InPool(name, generation, total)
		g.reach(slice)
		build(slice)
		slices = append(slices, slice.Obj())
	}
	if withCounters {
		add("-counters", func(s *b.SliceBuilder) {
			s.Counters("set-0", "memory", "4", "engines", "3").Counters("set-1", "memory", "2")
		})
	}
	for part := range parts {
		add(fmt.Sprintf("-%d", part), func(s *b.SliceBuilder) {
			for i := range 1 + g.Intn(4) {
				s.Devices(g.device(driver, name, fmt.Sprintf("dev-%d-%d", part, i), withCounters))
			}
		})
	}
	if g.oneIn(8) {
		old := b.Slice(driver+name+"-old").OfDriver(driver).InPool(name, generation-1, pick(g, int64(1), 2)).
			Devices(g.device(driver, name, "old", false))
		g.reach(old)
		slices = append(slices, old.Obj())
	}
	return slices
}

func (g *generator) reach(s *b.SliceBuilder) {
	switch g.Intn(14) {
	case 0:
		s.OnNode("node-1")
	case 1, 2:
		s.OnAllNodes()
	case 3, 4:
		s.OnLabeled("zone", "1")
	case 5:
		s.OnLabeled("rack", "a")
	case 6, 7:
		s.PerDevice()
	default:
		s.OnNode("node-0")
	}
}

func (g *generator) device(driver, pool, name string, withCounters bool) *b.DeviceBuilder {
	if g.oneIn(80) {
		name = "dev-0-0" // Perhaps not unique.
	}
	d := b.Device(name)
	g.devices = append(g.devices, structured.MakeDeviceID(driver, pool, name))
	if !g.oneIn(8) {
		d.Attr("model", pick(g, "big", "small"))
	}
	if !g.oneIn(6) {
		d.Attr("numa", g.Intn(2))
	}
	if !g.oneIn(5) {
		d.Attr("example.com/root", g.root())
	}
	if g.oneIn(8) {
		d.Taint(pick(g, "t1", "t2"), pick(g, resourceapi.DeviceTaintEffectNoSchedule,
			resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone))
	}
	if withCounters && !g.oneIn(4) {
		d.Consumes("set-0", "memory", pick(g, "1", "2", "4"), "engines", pick(g, "1", "2"))
		if g.oneIn(4) {
			d.Consumes("set-1", "memory", pick(g, "1", "2"))
		}
	}
	if g.oneIn(100) {
		d.Consumes("set-9", "memory", "1") // Which the pool does not define.
	}
	if g.oneIn(15) {
		d.BindingCondition("ready")
	}
	if g.oneIn(20) {
		d.BindsToNode()
	}
	switch g.Intn(4) { // Only counts in slices with node selection per device.
	case 0:
		d.OnNode(pick(g, "node-0", "node-1"))
	case 1:
		d.OnLabeled(pick(g, "zone", "rack"), pick(g, "1", "a"))
	default:
		d.OnAllNodes()
	}
	return d
}

// root makes an attribute value: mostly strings, sometimes lists or other types.
func (g *generator) root() any {
	if g.oneIn(100) {
		// Of a type that is not known (yet). All selectors fail on such a device.
		return resourceapi.DeviceAttribute{}
	}
	switch g.Intn(16) {
	case 0:
		return pick(g, true, false)
	case 1:
		return resourceapi.DeviceAttribute{VersionValue: ptr.To(pick(g, "1.0.0", "2.0.0"))}
	case 2, 3:
		return resourceapi.DeviceAttribute{IntValues: []int64{int64(g.Intn(3)), int64(g.Intn(3))}}
	case 4:
		return resourceapi.DeviceAttribute{BoolValues: []bool{g.oneIn(2)}}
	case 5:
		return resourceapi.DeviceAttribute{VersionValues: []string{pick(g, "1.0.0", "2.0.0"), "3.0.0"}}
	case 6, 7, 8:
		return resourceapi.DeviceAttribute{StringValues: []string{pick(g, "a", "b"), pick(g, "b", "c")}}
	}
	return pick(g, "a", "b", "c")
}

func (g *generator) claim(index int) *resourceapi.ResourceClaim {
	var requests []*b.RequestBuilder
	var names []string
	for i := range pick(g, 1, 1, 2, 3) {
		name := fmt.Sprintf("r%d", i)
		names = append(names, name)
		if !g.oneIn(4) {
			requests = append(requests, g.request(name, true))
			continue
		}
		var alternatives []*b.RequestBuilder
		for j := range 1 + g.Intn(3) {
			alternative := fmt.Sprintf("s%d", j)
			names = append(names, name+"/"+alternative)
			alternatives = append(alternatives, g.request(alternative, false))
		}
		requests = append(requests, b.FirstAvailable(name, alternatives...))
	}
	claim := b.Claim(fmt.Sprintf("claim-%d", index), requests...)
	for range pick(g, 0, 0, 1, 1, 2) {
		var some []string
		if g.oneIn(2) {
			some = append(some, names[g.Intn(len(names))], names[g.Intn(len(names))])
		}
		attribute := pick(g, "gpu.example.com/numa", "example.com/root", "gpu.example.com/model")
		if g.oneIn(3) {
			claim.Distinct(attribute, some...)
		} else {
			claim.Match(attribute, some...)
		}
	}
	if g.oneIn(3) {
		g.addConfig(claim, names)
	}
	return claim.Obj()
}

func (g *generator) addConfig(claim *b.ClaimBuilder, names []string) {
	for i := range 1 + g.Intn(2) {
		var some []string
		for range g.Intn(3) {
			some = append(some, names[g.Intn(len(names))])
		}
		claim.Config(fmt.Sprintf("driver-%d", i), some...)
	}
}

func (g *generator) request(name string, mayBeAdmin bool) *b.RequestBuilder {
	class := pick(g, "any", "any", "any", "big", "small")
	if g.oneIn(12) {
		class = "numa"
	}
	r := b.Request(name, class)
	if g.oneIn(60) {
		r = b.Request(name, pick(g, "broken", "missing"))
	}
	switch g.Intn(12) {
	case 0:
		r.All()
	case 1:
		r.Count(int64(3 + g.Intn(3)))
	default:
		r.Count(int64(1 + g.Intn(2)))
	}
	if g.oneIn(5) {
		r.Where(pick(g, isBig, isSmall, isBig, isSmall, `true`, isNumaOf))
	}
	if mayBeAdmin && g.oneIn(10) {
		r.Admin()
	}
	if g.oneIn(6) {
		r.Tolerate(pick(g, "t1", "t2", ""))
	}
	return r
}
