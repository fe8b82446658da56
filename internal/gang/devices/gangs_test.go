package devices_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// gangCase is a gang, and the number of its pods on each node.
type gangCase struct {
	// zones has the zone of each node; zone "a" for all if nil.
	zones  []string
	slices []*b.SliceBuilder
	// cpu is the CPU of each node, nil if nothing limits it.
	cpu    []int
	groups []group
	need   int
	// want is nil if the gang does not fit; gaveUp is set if that is unknown.
	want   []int
	gaveUp bool
	// devices are the devices that claims must get, if only these are possible.
	devices map[string][]string
}

func (tc *gangCase) run(t *testing.T) {
	t.Parallel()
	zones := tc.zones
	if zones == nil {
		zones = []string{"a", "a"}
	}
	c := newCluster(zones, tc.slices...)
	c.cpu = tc.cpu
	tried, result := c.search(t, tc.need, tc.groups...)
	require.Equal(t, tc.gaveUp, result.GaveUp)
	if tc.want == nil {
		require.False(t, result.Fits(), "%v", result.Assignments)
		return
	}
	require.Equal(t, tc.want, c.counts(result))
	got := c.planned(t, tried)
	for claim, devices := range tc.devices {
		require.Equal(t, devices, got[claim], "claim %s", claim)
	}
}

func one(class string) *b.ClaimBuilder { return b.Claim("", b.Request("r", class)) }

func model(name, model string) *b.DeviceBuilder { return b.Device(name).Attr("model", model) }

func xs(n int) (devices []*b.DeviceBuilder) {
	for _, device := range b.NumberedDevices("x", n) {
		devices = append(devices, device.Attr("model", "x"))
	}
	return devices
}

// net returns a pool that all nodes reach, or those of a zone if one is named. Its name sorts before the nodes' pools.
func net(name, zone string, devices ...*b.DeviceBuilder) *b.SliceBuilder {
	slice := b.Slice("a-" + name).Devices(devices...)
	if zone != "" {
		return slice.OnLabeled("zone", zone)
	}
	return slice.OnAllNodes()
}

// TestNodesApart checks gangs that get devices of single nodes.
func TestNodesApart(t *testing.T) {
	t.Parallel()
	two := []*b.SliceBuilder{b.NodeSlice("n0", xs(2)...), b.NodeSlice("n1", xs(2)...)}
	mixed := []*b.SliceBuilder{b.NodeSlice("n0", model("0", "y"), model("1", "x"), model("2", "x"))}
	for name, tc := range map[string]gangCase{
		"one class on two nodes":         {slices: two, groups: []group{podsWith("p", 3, one("any"))}, want: []int{2, 1}},
		"all there is":                   {slices: two, groups: []group{podsWith("p", 4, one("any"))}, want: []int{2, 2}},
		"more than there is":             {slices: two, groups: []group{podsWith("p", 5, one("any"))}},
		"enough of more than there is":   {slices: two, groups: []group{podsWith("p", 5, one("any"))}, need: 4, want: []int{2, 2}},
		"two claims each":                {slices: two, groups: []group{podsWith("p", 2, one("any"), one("x"))}, want: []int{1, 1}},
		"two devices each":               {slices: two, groups: []group{podsWith("p", 3, b.Claim("", b.Request("r", "x").Count(2)))}},
		"what is alike for other pods":   {slices: mixed, groups: []group{podsWith("p", 2, one("any")), podsWith("q", 1, one("y"))}, want: []int{3, 0}, devices: map[string][]string{"q-0-0": {"n0/0"}}},
		"the same, too many":             {slices: mixed, groups: []group{podsWith("p", 2, one("any")), podsWith("q", 2, one("y"))}},
		"no claims":                      {slices: two, groups: []group{podsWith("p", 6)}, want: []int{6, 0}},
		"a claim without requests":       {slices: two, groups: []group{podsWith("p", 6, b.Claim(""))}, want: []int{6, 0}},
		"CPU":                            {slices: two, cpu: []int{3, 2}, groups: []group{podsWith("p", 3, one("any")).needing(2)}},
		"CPU on another node":            {slices: two, cpu: []int{3, 4}, groups: []group{podsWith("p", 3, one("any")).needing(2)}, want: []int{1, 2}},
		"claims that are allocated":      {slices: two, groups: []group{podsWith("p", 3, one("any")).on("n1")}, need: 2, want: []int{0, 2}},
		"claims that are allocated, all": {slices: two, groups: []group{podsWith("p", 3, one("any")).on("n1")}},
	} {
		t.Run(name, tc.run)
	}
}

// parts returns devices that are taken whole or in halves. place gives the nodes that reach them.
func parts(pool string, place func(*b.SliceBuilder) *b.SliceBuilder, names ...string) []*b.SliceBuilder {
	counters, devices := place(b.Slice(pool+"-0")).InPool(pool, 1, 2), place(b.Slice(pool+"-1")).InPool(pool, 1, 2)
	for _, name := range names {
		counters.Counters(name, "units", "2")
		devices.Devices(model(name+"-whole", "whole").Consumes(name, "units", "2"),
			model(name+"-half-0", "half").Consumes(name, "units", "1"), model(name+"-half-1", "half").Consumes(name, "units", "1"))
	}
	return []*b.SliceBuilder{counters, devices}
}

func onNode(node string) func(*b.SliceBuilder) *b.SliceBuilder {
	return func(slice *b.SliceBuilder) *b.SliceBuilder { return slice.OnNode(node) }
}

// TestWholeOrHalves is kubernetes/kubernetes#138765: if pods prefer a whole device, they leave none to the others,
// although halves would suffice.
func TestWholeOrHalves(t *testing.T) {
	t.Parallel()
	alternatives := b.Claim("", b.FirstAvailable("r", b.Request("large", "whole"), b.Request("small", "half")))
	halves := map[string][]string{}
	for name, tc := range map[string]gangCase{
		"on one node": {
			slices: parts("n0", onNode("n0"), "a", "b"),
			groups: []group{podsWith("p", 4, alternatives)}, want: []int{4, 0},
		},
		"on two nodes": {
			slices: append(parts("n0", onNode("n0"), "a"), parts("n1", onNode("n1"), "b")...),
			groups: []group{podsWith("p", 4, alternatives)}, want: []int{2, 2},
		},
		"on the network": {
			slices: parts("a-net", (*b.SliceBuilder).OnAllNodes, "a", "b"), cpu: []int{2, 2},
			groups: []group{podsWith("p", 4, alternatives).needing(1)}, want: []int{2, 2},
		},
		"on the network and on nodes": {
			slices: append(parts("a-net", (*b.SliceBuilder).OnAllNodes, "a"), parts("n0", onNode("n0"), "b")...), cpu: []int{2, 2},
			groups: []group{podsWith("p", 4, alternatives).needing(1)}, want: []int{2, 2},
		},
		"more than halves": {
			slices: parts("a-net", (*b.SliceBuilder).OnAllNodes, "a", "b"), cpu: []int{3, 2},
			groups: []group{podsWith("p", 5, alternatives).needing(1)},
		},
		"wholes where there is room": {
			slices: parts("a-net", (*b.SliceBuilder).OnAllNodes, "a", "b"), cpu: []int{2, 2},
			groups: []group{podsWith("p", 2, alternatives).needing(1)}, want: []int{2, 0},
			devices: map[string][]string{"p-0-0": {"a-net/a-whole"}, "p-1-0": {"a-net/b-whole"}},
		},
	} {
		if tc.devices == nil {
			tc.devices = halves
		}
		t.Run(name, tc.run)
	}
}

// TestDevicesOfSeveralNodes checks pools that several nodes reach: one node must not take devices that others need
// more.
func TestDevicesOfSeveralNodes(t *testing.T) {
	t.Parallel()
	pods := []group{podsWith("p", 2, one("any")).needing(1)}
	three := []string{"a", "b", "b"}
	for name, tc := range map[string]gangCase{
		"the first could have taken its own": {
			slices: []*b.SliceBuilder{net("net", "", xs(1)...), b.NodeSlice("n0", xs(1)...)}, cpu: []int{1, 1},
			groups: pods, want: []int{1, 1}, devices: map[string][]string{"p-0-0": {"n0/x-0"}, "p-1-0": {"a-net/x-0"}},
		},
		"the same in a zone": {
			zones: three, slices: []*b.SliceBuilder{net("net", "b", xs(1)...), b.NodeSlice("n1", xs(1)...)}, cpu: []int{1, 1, 1},
			groups: pods, want: []int{0, 1, 1}, devices: map[string][]string{"p-0-0": {"n1/x-0"}, "p-1-0": {"a-net/x-0"}},
		},
		"out of reach": {
			zones: three, slices: []*b.SliceBuilder{net("net", "b", xs(2)...)}, cpu: []int{1, 0, 1}, groups: pods,
		},
		"another model of the same pool": {
			slices: []*b.SliceBuilder{net("net", "", model("0", "y"), model("1", "x"))}, cpu: []int{1, 1},
			groups: []group{podsWith("p", 1, one("any")).needing(1), podsWith("q", 1, one("y")).needing(1)}, want: []int{1, 1},
			devices: map[string][]string{"p-0-0": {"a-net/1"}, "q-0-0": {"a-net/0"}},
		},
		"too few": {
			slices: []*b.SliceBuilder{net("net", "", xs(1)...)}, cpu: []int{1, 1}, groups: pods,
		},
		"one makes way for one who makes way": {
			// n0 has a device of its own, n0 and n1 reach the first pool, n1 and n2 the second one.
			zones: []string{"a", "b", "c"}, cpu: []int{1, 1, 1},
			slices: []*b.SliceBuilder{
				b.Slice("a-1").Modify(inZones("a", "b")).Devices(xs(1)...), b.Slice("a-2").Modify(inZones("b", "c")).Devices(xs(1)...),
				b.NodeSlice("n0", xs(1)...),
			},
			groups: []group{podsWith("p", 3, one("any")).needing(1)}, want: []int{1, 1, 1},
			devices: map[string][]string{"p-0-0": {"n0/x-0"}, "p-1-0": {"a-1/x-0"}, "p-2-0": {"a-2/x-0"}},
		},
		"one makes way for one who makes way, by model": {
			// q can leave the "y" of the second pool to r only if p leaves that of the first pool to q.
			zones: []string{"a", "b", "c"},
			slices: []*b.SliceBuilder{
				b.Slice("a-1").Modify(inZones("a", "b")).Devices(model("0", "y"), model("1", "x")), b.Slice("a-2").Modify(inZones("b", "c")).Devices(model("0", "y")),
			},
			groups: []group{podsWith("p", 1, one("any")).on("n0"), podsWith("q", 1, one("y")).on("n1"), podsWith("r", 1, one("y")).on("n2")},
			want:   []int{1, 1, 1}, devices: map[string][]string{"p-0-0": {"a-1/1"}, "q-0-0": {"a-1/0"}, "r-0-0": {"a-2/0"}},
		},
		"some devices of a pool for all nodes": {
			slices: []*b.SliceBuilder{b.Slice("p").PerDevice().Devices(b.Device("0").OnAllNodes(), b.Device("1").OnNode("n0"), b.Device("2").OnNode("n1"))},
			cpu:    []int{1, 2}, groups: []group{podsWith("p", 3, one("any")).needing(1)}, want: []int{1, 2}, devices: map[string][]string{"p-0-0": {"p/1"}},
		},
		"all of them": {
			slices: []*b.SliceBuilder{net("net", "", xs(2)...), b.NodeSlice("n0", xs(1)...)}, cpu: []int{1, 1},
			groups: []group{podsWith("p", 1, b.Claim("", b.Request("r", "any").All())).needing(1), podsWith("q", 1, one("any")).needing(1)}, want: []int{1, 1},
			devices: map[string][]string{"p-0-0": {"a-net/x-0", "a-net/x-1"}, "q-0-0": {"n0/x-0"}},
		},
		"all of them and one more": {
			slices: []*b.SliceBuilder{net("net", "", xs(2)...)}, cpu: []int{1, 1}, gaveUp: true,
			groups: []group{podsWith("p", 1, b.Claim("", b.Request("r", "any").All())).needing(1), podsWith("q", 1, one("any")).needing(1)},
		},
		"all of those that are not the other's": {
			// The pod that requests all devices must be where it leaves some to the other.
			zones: three, slices: []*b.SliceBuilder{b.NodeSlice("n0", xs(2)...), net("net", "b", xs(2)...)}, cpu: []int{1, 1, 1},
			groups: []group{podsWith("p", 1, b.Claim("", b.Request("r", "any").All())).needing(1), podsWith("q", 1, one("any")).needing(1)},
			want:   []int{1, 1, 0}, devices: map[string][]string{"p-0-0": {"n0/x-0", "n0/x-1"}},
		},
	} {
		t.Run(name, tc.run)
	}
}

// TestSharedClaims checks claims that several pods of a gang share.
func TestSharedClaims(t *testing.T) {
	t.Parallel()
	shared := func(class string) *b.ClaimBuilder { return b.Claim("shared", b.Request("r", class)) }
	local := []*b.SliceBuilder{b.NodeSlice("n0", xs(1)...), b.NodeSlice("n1", xs(1)...)}
	users := func(n int) group { return podsWith("p", n).with(shared("any").Obj()).needing(1) }
	both := net("net", "", model("0", "y"))
	binding := b.Slice("a-net").OnAllNodes().Devices(b.Device("0").BindsToNode())
	three := []string{"a", "b", "b"}
	for name, tc := range map[string]gangCase{
		"on one node":                   {slices: local, cpu: []int{1, 3}, groups: []group{users(3)}, want: []int{0, 3}},
		"on two nodes, no network":      {slices: local, cpu: []int{2, 2}, groups: []group{users(3)}},
		"on two nodes, network":         {slices: []*b.SliceBuilder{both}, cpu: []int{2, 2}, groups: []group{users(3)}, want: []int{2, 1}},
		"on two nodes, network or node": {slices: append(local[:2:2], both), cpu: []int{2, 2}, groups: []group{users(3)}, want: []int{2, 1}, devices: map[string][]string{"shared": {"a-net/0"}}},
		"network tried last": {
			slices: append(local[:2:2], b.Slice("z").OnAllNodes().Devices(xs(1)...)), cpu: []int{2, 2},
			groups: []group{users(3)}, want: []int{2, 1}, devices: map[string][]string{"shared": {"z/x-0"}},
		},
		"and one of their own": {
			slices: append(local[:2:2], both), cpu: []int{1, 1},
			groups: []group{podsWith("p", 2, one("any")).with(shared("any").Obj()).needing(1)}, want: []int{1, 1},
			devices: map[string][]string{"shared": {"a-net/0"}, "p-0-0": {"n0/x-0"}, "p-1-0": {"n1/x-0"}},
		},
		"and one of their own, too few": {
			slices: append(local[:1:1], both), cpu: []int{1, 1},
			groups: []group{podsWith("p", 2, one("any")).with(shared("any").Obj()).needing(1)},
		},
		"a pod beside them needs the network": {
			slices: append(local[:2:2], both), cpu: []int{2, 0},
			groups: []group{users(1), podsWith("q", 1, one("y")).needing(1)}, want: []int{2, 0},
			devices: map[string][]string{"shared": {"n0/x-0"}, "q-0-0": {"a-net/0"}},
		},
		"three nodes, of which two have more in common": {
			zones: three, slices: []*b.SliceBuilder{net("0", "b", xs(1)...), net("1", "", xs(1)...)}, cpu: []int{1, 1, 1},
			groups: []group{users(3)}, want: []int{1, 1, 1}, devices: map[string][]string{"shared": {"a-1/x-0"}},
		},
		"two claims of all": {
			slices: []*b.SliceBuilder{net("0", "", xs(1)...), net("1", "", model("y", "y"))}, cpu: []int{1, 1},
			groups: []group{podsWith("p", 2).with(shared("any").Obj()).with(b.Claim("other", b.Request("r", "x")).Obj()).needing(1)},
			want:   []int{1, 1}, devices: map[string][]string{"shared": {"a-1/y"}, "other": {"a-0/x-0"}},
		},
		"pairs": {
			slices: local, cpu: []int{2, 2},
			groups: []group{podsWith("p", 2).with(shared("any").Obj()).needing(1), podsWith("q", 2).with(b.Claim("other", b.Request("r", "any")).Obj()).needing(1)},
			want:   []int{2, 2},
		},
		"all devices, for the node that has fewer": {
			slices: append(local[:1:1], both), cpu: []int{1, 1},
			groups: []group{podsWith("p", 2).with(b.Claim("shared", b.Request("r", "any").All()).Obj()).needing(1)}, want: []int{1, 1},
			devices: map[string][]string{"shared": {"a-net/0"}},
		},
		"all devices of two nodes and of the network": {
			slices: append(local[:2:2], both), cpu: []int{1, 1},
			groups: []group{podsWith("p", 2).with(b.Claim("shared", b.Request("r", "any").All()).Obj()).needing(1)},
		},
		"all devices of the network": {
			slices: append(local[:1:1], both), cpu: []int{1, 1},
			groups: []group{podsWith("p", 2).with(b.Claim("shared", b.Request("r", "y").All()).Obj()).needing(1)}, want: []int{1, 1},
		},
		"a device that binds to a node": {slices: []*b.SliceBuilder{binding}, cpu: []int{1, 1}, groups: []group{users(2)}},
		"a claim without requests": {
			slices: local, cpu: []int{1, 1}, groups: []group{podsWith("p", 2).with(b.Claim("shared").Obj()).needing(1)}, want: []int{1, 1},
		},
		"some devices of a pool": {
			slices: []*b.SliceBuilder{b.Slice("p").PerDevice().Devices(b.Device("0").OnNode("n0"), b.Device("1").OnAllNodes(), b.Device("2").OnNode("n1"))},
			cpu:    []int{1, 1}, groups: []group{users(2)}, want: []int{1, 1}, devices: map[string][]string{"shared": {"p/1"}},
		},
		"some slices of a pool": {
			slices: []*b.SliceBuilder{
				b.Slice("s-0").InPool("p", 1, 2).OnNode("n0").Devices(b.Device("0")), b.Slice("s-1").InPool("p", 1, 2).OnAllNodes().Devices(b.Device("1")),
			},
			cpu: []int{1, 1}, groups: []group{users(2)}, want: []int{1, 1}, devices: map[string][]string{"shared": {"p/1"}},
		},
	} {
		t.Run(name, tc.run)
	}
}
