package allocator_test

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// device makes a device, in uniform scenarios often one like the last of its pool.
func (g *generator) device(name string, withCounters bool) *b.DeviceBuilder {
	if g.oddly(30) {
		name = "dev-0-0" // Perhaps not unique.
	}
	d := b.Device(name)
	if g.uniform && g.last != nil && !g.oneIn(4) {
		last := g.last
		return d.Modify(func(device *resourceapi.Device) {
			last.Modify(func(like *resourceapi.Device) { like.DeepCopyInto(device) })
			device.Name = name
		})
	}
	g.last = d
	g.attributes(d)
	if g.oneIn(12) {
		d.Taint(pick(g, "t1", "t2"), pick(g, resourceapi.DeviceTaintEffectNoSchedule,
			resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone))
	}
	if withCounters && !g.oneIn(4) {
		d.Consumes("set-0", "memory", pick(g, "1", "2", "4"), "engines", pick(g, "1", "2"))
		if g.oneIn(4) {
			d.Consumes("set-1", "memory", pick(g, "1", "2"))
		}
	}
	if g.oddly(40) {
		d.Consumes("set-9", "memory", "1") // A counter set that the pool does not define.
	}
	if g.oneIn(15) {
		d.BindingCondition("ready")
		if g.oneIn(2) {
			d.Modify(func(d *resourceapi.Device) { d.BindingFailureConditions = []string{"failed"} })
		}
	}
	if g.oneIn(20) {
		d.BindsToNode()
	}
	g.reachOfDevice(d)
	if g.groups {
		d.Modify(g.compatibilityGroups)
	}
	if g.capacity && !g.oneIn(4) {
		d.Modify(g.capacities)
	}
	return d
}

// reachOfDevice only counts in slices with node selection per device.
func (g *generator) reachOfDevice(d *b.DeviceBuilder) {
	switch g.Intn(4) {
	case 0:
		d.OnNode(pick(g, "node-0", "node-1"))
	case 1:
		d.OnLabeled(pick(g, "zone", "rack"), pick(g, "1", "a"))
		if g.oddly(5) {
			d.Modify(func(d *resourceapi.Device) { addTerm(d.NodeSelector) })
		}
	default:
		d.OnAllNodes()
	}
}

// addTerm adds a second term to a selector. The API does not allow it, but an older API server may have stored it.
func addTerm(selector *v1.NodeSelector) {
	selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, b.NodeSelector("zone", "2").NodeSelectorTerms...)
}

// makeMalformed makes a selector one that cannot be parsed.
func makeMalformed(selector *v1.NodeSelector) {
	selector.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Like"
}

func (g *generator) attributes(d *b.DeviceBuilder) {
	if !g.oneIn(8) {
		d.Attr("model", pick(g, "big", "small"))
	}
	if !g.oneIn(6) {
		d.Attr("numa", g.Intn(2))
	}
	if !g.oneIn(5) {
		d.Attr("example.com/root", g.root())
	}
}

// root makes an attribute value: mostly strings, sometimes lists or other types.
func (g *generator) root() any {
	if g.oddly(30) {
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

func (g *generator) compatibilityGroups(device *resourceapi.Device) {
	for i := range device.ConsumesCounters {
		if !g.oneIn(3) {
			device.ConsumesCounters[i].CompatibilityGroups = pick(g, []string{"x"}, []string{"y"}, []string{"x", "y"})
		}
	}
}

func (g *generator) capacities(device *resourceapi.Device) {
	device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
		"bandwidth": {Value: resource.MustParse(pick(g, "4", "6", "4", "10")), RequestPolicy: g.policy()},
	}
	if g.oneIn(4) {
		device.Capacity["slots"] = resourceapi.DeviceCapacity{Value: resource.MustParse("2"), RequestPolicy: g.policy()}
	}
	if g.oddly(30) {
		device.Capacity["slots"] = resourceapi.DeviceCapacity{Value: resource.MustParse("-1")}
	}
	if !g.oneIn(3) {
		device.AllowMultipleAllocations = ptr.To(true)
	}
}

func quantity(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }

func (g *generator) policy() *resourceapi.CapacityRequestPolicy {
	switch g.Intn(6) {
	case 0:
		return nil
	case 1:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("1")}
	case 2:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("1"),
			ValidValues: []resource.Quantity{*quantity("1"), *quantity("3"), *quantity("4")}}
	case 3:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("1"),
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1"), Max: quantity(pick(g, "3", "5"))}}
	case 4:
		return &resourceapi.CapacityRequestPolicy{Default: quantity("500m"),
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("500m"), Step: quantity(pick(g, "250m", "1"))}}
	default:
		return &resourceapi.CapacityRequestPolicy{
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1"), Max: quantity("8"), Step: quantity("2")}}
	}
}

// share lets claims have shares of a device: with their consumption, sometimes only the share itself, rarely
// only the sum of the consumption.
func (g *generator) share(d device) {
	onlySum := g.oddly(10)
	if !onlySum {
		for _, name := range []string{"share", "share-2"}[:1+g.Intn(2)] {
			g.s.state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(d.id(), ptr.To(types.UID(name))))
		}
	}
	if onlySum || !g.oneIn(3) {
		consumed := map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": *quantity(pick(g, "1", "2", "500m"))}
		g.s.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(d.id(), consumed))
	}
}
