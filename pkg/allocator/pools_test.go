package allocator_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestConstraints(t *testing.T) {
	twoRoots := nodeWith(0,
		b.Device("a").Attr("numa", 0).Attr("example.com/root", "x"),
		b.Device("b").Attr("numa", 1).Attr("example.com/root", "y"),
		b.Device("c").Attr("numa", 1).Attr("example.com/root", "x"),
		b.Device("d").Attr("numa", 0),
	)
	x, y := b.Request("x", "gpu"), b.Request("y", "gpu")
	noLists := without(func(f *structured.Features) { f.ListTypeAttributes = false })
	lists := []*b.DeviceBuilder{
		b.Device("a").Attr("example.com/root", list("1", "2")), b.Device("b").Attr("example.com/root", list("3")),
		b.Device("c").Attr("example.com/root", list("2", "3")), b.Device("d").Attr("example.com/root", "2"),
	}
	checkFits(t, map[string]fitCase{
		"match": {
			twoRoots, []*b.ClaimBuilder{wants(2).Match("gpu.example.com/numa")}, [][]string{{"gpu=p/a", "gpu=p/d"}},
		},
		"match an attribute of another domain": {
			twoRoots, []*b.ClaimBuilder{wants(2).Match("example.com/root")}, [][]string{{"gpu=p/a", "gpu=p/c"}},
		},
		"match between requests": {
			twoRoots, []*b.ClaimBuilder{b.Claim("c", x, y).Match("gpu.example.com/numa")}, [][]string{{"x=p/a", "y=p/d"}},
		},
		"match within one of the requests": {
			twoRoots, []*b.ClaimBuilder{b.Claim("c", x, b.Request("y", "gpu").Count(2)).Match("gpu.example.com/numa", "y")},
			[][]string{{"x=p/a", "y=p/b", "y=p/c"}},
		},
		"match names the chosen alternative": {
			twoRoots,
			[]*b.ClaimBuilder{b.Claim("c", b.FirstAvailable("r", b.Request("s", "gpu").Count(3), b.Request("t", "gpu").Count(2))).
				Match("gpu.example.com/numa", "r/s")},
			[][]string{{"r/t=p/a", "r/t=p/b"}},
		},
		"match names the request with alternatives": {
			twoRoots,
			[]*b.ClaimBuilder{b.Claim("c", b.FirstAvailable("r", b.Request("s", "gpu").Count(3), b.Request("t", "gpu").Count(2))).
				Match("gpu.example.com/numa", "r")},
			[][]string{{"r/t=p/a", "r/t=p/d"}},
		},
		"distinct": {
			twoRoots, []*b.ClaimBuilder{wants(2).Distinct("gpu.example.com/numa")}, [][]string{{"gpu=p/a", "gpu=p/b"}},
		},
		"match one, distinct the other": {
			twoRoots, []*b.ClaimBuilder{wants(2).Match("gpu.example.com/numa").Distinct("example.com/root")},
			[][]string{{"gpu=p/b", "gpu=p/c"}},
		},
		"claims do not share constraints": {
			twoRoots,
			[]*b.ClaimBuilder{b.Claim("c", x).Match("gpu.example.com/numa"), b.Claim("d", x).Match("gpu.example.com/numa")},
			[][]string{{"x=p/a"}, {"x=p/b"}},
		},
		"match lists that have a value in common": {
			nodeWith(0, lists...), []*b.ClaimBuilder{wants(2).Match("example.com/root")}, [][]string{{"gpu=p/a", "gpu=p/c"}},
		},
		"match one value in all lists": {
			nodeWith(0, lists...), []*b.ClaimBuilder{wants(3).Match("example.com/root")}, [][]string{{"gpu=p/a", "gpu=p/c", "gpu=p/d"}},
		},
		"distinct lists": {
			nodeWith(0, lists...), []*b.ClaimBuilder{wants(2).Distinct("example.com/root")}, [][]string{{"gpu=p/a", "gpu=p/b"}},
		},
		"match one list although lists are off": {
			nodeWith(0, lists[0]).withFeatures(noLists), []*b.ClaimBuilder{wants(1).Match("example.com/root")}, [][]string{{"gpu=p/a"}},
		},
		"no value of unknown type matches": {
			nodeWith(0, withValues("id", resourceapi.DeviceAttribute{}, 1)...),
			[]*b.ClaimBuilder{wants(1).Match("gpu.example.com/id")}, [][]string{{"gpu=p/gpu-1"}},
		},
		"no two values of different type match": {
			nodeWith(0, withValues("id", 1, "1", true, resourceapi.DeviceAttribute{VersionValue: ptr.To("1")}, 1)...),
			[]*b.ClaimBuilder{wants(2).Match("gpu.example.com/id")}, [][]string{{"gpu=p/gpu-0", "gpu=p/gpu-4"}},
		},
		"versions match": {
			nodeWith(0, withValues("id", "1.0.0", resourceapi.DeviceAttribute{VersionValue: ptr.To("1.0.0")},
				resourceapi.DeviceAttribute{VersionValues: []string{"2.0.0", "1.0.0"}})...),
			[]*b.ClaimBuilder{wants(2).Match("gpu.example.com/id")}, [][]string{{"gpu=p/gpu-1", "gpu=p/gpu-2"}},
		},
		"lists of numbers match": {
			nodeWith(0, withValues("id", 1, resourceapi.DeviceAttribute{IntValues: []int64{2, 3}}, 3)...),
			[]*b.ClaimBuilder{wants(2).Match("gpu.example.com/id")}, [][]string{{"gpu=p/gpu-1", "gpu=p/gpu-2"}},
		},
		"lists of booleans match": {
			nodeWith(0, withValues("id", true, resourceapi.DeviceAttribute{BoolValues: []bool{false}}, false)...),
			[]*b.ClaimBuilder{wants(2).Match("gpu.example.com/id")}, [][]string{{"gpu=p/gpu-1", "gpu=p/gpu-2"}},
		},
	})
}

// withValues makes a device for each value of an attribute.
func withValues(attribute string, values ...any) []*b.DeviceBuilder {
	devices := gpus(len(values))
	for i, value := range values {
		devices[i].Attr(attribute, value)
	}
	return devices
}

func TestPartitions(t *testing.T) {
	// A device with 8 engines of which partitions take 4, 4, 2, 2 and 1.
	pool := func(sets ...*b.SliceBuilder) cluster {
		devices := b.Devices("half-0", "half-1", "quarter-0", "quarter-1", "eighth")
		for i, engines := range []string{"4", "4", "2", "2", "1"} {
			devices[i].Consumes("gpu", "engines", engines)
		}
		return cluster{}.and(append(sets,
			b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("gpu", "engines", "8"),
			b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(devices...))...)
	}
	held := func(c cluster, devices ...string) cluster {
		c.held = []*resourceapi.ResourceClaim{heldBy("others", "p", devices...)}
		return c
	}
	elsewhere := cluster{}.and(
		b.Slice("p-counters").InPool("p", 1, 3).OnAllNodes().Counters("link", "ports", "2"),
		b.Slice("p-here").InPool("p", 1, 3).OnNode("n").Devices(b.Device("a").Consumes("link", "ports", "1"), b.Device("b").Consumes("link", "ports", "2")),
		b.Slice("p-there").InPool("p", 1, 3).OnNode("other").Devices(b.Device("c").Consumes("link", "ports", "1")))
	checkFits(t, map[string]fitCase{
		"as many as the counters allow": {
			pool(), []*b.ClaimBuilder{wants(3)}, [][]string{{"gpu=p/half-0", "gpu=p/quarter-0", "gpu=p/quarter-1"}},
		},
		"what is in use counts": {
			held(pool(), "half-1"), []*b.ClaimBuilder{wants(2)}, [][]string{{"gpu=p/quarter-0", "gpu=p/quarter-1"}},
		},
		"what is in use on another node counts": {
			held(elsewhere, "c"), []*b.ClaimBuilder{wants(1)}, [][]string{{"gpu=p/a"}},
		},
		"two requests draw from the same counters": {
			pool(), []*b.ClaimBuilder{b.Claim("c", b.Request("x", "gpu"), b.Request("y", "gpu").Count(2))},
			[][]string{{"x=p/half-0", "y=p/quarter-0", "y=p/quarter-1"}},
		},
		"two claims draw from the same counters": {
			pool(), []*b.ClaimBuilder{wants(1), b.Claim("d", b.Request("x", "gpu").Count(2))},
			[][]string{{"gpu=p/half-0"}, {"x=p/quarter-0", "x=p/quarter-1"}},
		},
		"an overdrawn set blocks partitions, not whole devices": {
			held(cluster{}.and(
				b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("gpu", "engines", "1").Counters("other", "engines", "1"),
				b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(
					b.Device("used").Consumes("gpu", "engines", "2"), b.Device("part").Consumes("other", "engines", "1"), b.Device("whole"))), "used"),
			[]*b.ClaimBuilder{wants(1)}, [][]string{{"gpu=p/whole"}},
		},
	})
}

func TestPools(t *testing.T) {
	checkFits(t, map[string]fitCase{
		"only the newest generation counts": {
			cluster{}.and(b.Slice("old").InPool("p", 1, 1).OnNode("n").Devices(b.Device("old")),
				b.Slice("new").InPool("p", 2, 1).OnNode("n").Devices(b.Device("new"))),
			[]*b.ClaimBuilder{wants(1)}, [][]string{{"gpu=p/new"}},
		},
		"what is left of an old generation does not count, not even as incomplete": {
			cluster{}.and(b.Slice("old").InPool("p", 1, 2).OnNode("n").Devices(b.Device("old")),
				b.Slice("new").InPool("p", 2, 1).OnNode("other").Devices(b.Device("new")), onNode("q", gpus(1)...)),
			[]*b.ClaimBuilder{wantsAll()}, [][]string{{"gpu=q/gpu-0"}},
		},
		"an incomplete pool is left out": {
			cluster{}.and(b.Slice("p").InPool("p", 1, 2).OnNode("n").Devices(gpus(1)...), onNode("q", gpus(1)...)),
			[]*b.ClaimBuilder{wants(1)}, [][]string{{"gpu=q/gpu-0"}},
		},
		"an invalid pool is left out": {
			cluster{}.and(onNode("p", b.Device("same"), b.Device("same")), onNode("q", gpus(1)...)),
			[]*b.ClaimBuilder{wants(1)}, [][]string{{"gpu=q/gpu-0"}},
		},
		"devices of this node, of its zone and of all nodes": {
			cluster{node: b.Node("n", "zone", "z")}.and(
				onNode("d", gpus(1)...), b.NodeSlice("other", gpus(1)...), b.Slice("c").OnLabeled("zone", "y").Devices(gpus(1)...),
				b.Slice("b").OnLabeled("zone", "z").Devices(gpus(1)...), b.Slice("a").OnAllNodes().Devices(gpus(1)...)),
			[]*b.ClaimBuilder{wants(3)}, [][]string{{"gpu=a/gpu-0", "gpu=b/gpu-0", "gpu=d/gpu-0"}},
		},
		"nodes per device": {
			cluster{node: b.Node("n", "zone", "z")}.and(b.Slice("p").PerDevice().Devices(
				b.Device("other").OnNode("other"), b.Device("zone").OnLabeled("zone", "z"), b.Device("nowhere"), b.Device("all").OnAllNodes())),
			[]*b.ClaimBuilder{wants(2)}, [][]string{{"gpu=p/zone", "gpu=p/all"}},
		},
		"a slice that can reach no node": {
			cluster{}.and(b.Slice("p").Devices(gpus(1)...), onNode("q", gpus(1)...)),
			[]*b.ClaimBuilder{wants(1)}, [][]string{{"gpu=q/gpu-0"}},
		},
	})
}
