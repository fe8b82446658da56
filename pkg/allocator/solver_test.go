package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// fitCase is a search that has a solution: the devices of each claim.
type fitCase struct {
	cluster cluster
	claims  []*b.ClaimBuilder
	want    [][]string
}

func checkFits(t *testing.T, tests map[string]fitCase) {
	t.Parallel()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [][]string
			for _, result := range tc.cluster.mustFit(t, tc.claims...) {
				got = append(got, chosen(result))
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestOrder(t *testing.T) {
	conditional := b.Slice("a").OnAllNodes().Devices(b.Device("gpu-0"), b.Device("gpu-1").BindingCondition("attached"))
	checkFits(t, map[string]fitCase{
		"devices as their slice lists them": {
			nodeWith(0, b.Devices("z", "a", "m")...), []*b.ClaimBuilder{wants(2)}, [][]string{{"gpu=p/z", "gpu=p/a"}},
		},
		"slices of a pool by name": {
			cluster{}.and(b.Slice("s-2").InPool("p", 1, 2).OnNode("n").Devices(b.Device("a")),
				b.Slice("s-1").InPool("p", 1, 2).OnNode("n").Devices(b.Device("b"))),
			[]*b.ClaimBuilder{wants(2)}, [][]string{{"gpu=p/b", "gpu=p/a"}},
		},
		"pools by driver, then by name": {
			cluster{}.and(onNode("a", gpus(1)...), onNode("c", gpus(1)...).OfDriver("a.example.com"), onNode("b", gpus(1)...).OfDriver("a.example.com")),
			[]*b.ClaimBuilder{wants(3)}, [][]string{{"gpu=b/gpu-0", "gpu=c/gpu-0", "gpu=a/gpu-0"}},
		},
		"pools with binding conditions last": {
			cluster{}.and(conditional, onNode("b", gpus(1)...)),
			[]*b.ClaimBuilder{wants(2)}, [][]string{{"gpu=b/gpu-0", "gpu=a/gpu-0"}},
		},
		"the last choice is changed first": {
			nodeWith(0, numbered(gpus(4), "numa", 0, 1, 1, 0)...),
			[]*b.ClaimBuilder{b.Claim("c", b.Request("x", "gpu"), b.Request("y", "gpu")).Match("gpu.example.com/numa")},
			[][]string{{"x=p/gpu-0", "y=p/gpu-3"}},
		},
		"earlier claims choose first, unless a later one then has nothing": {
			nodeWith(0, b.Device("any").Attr("model", "big"), b.Device("other")).withClasses(b.Class("big", isBig)),
			[]*b.ClaimBuilder{b.Claim("first", b.Request("x", "gpu")), b.Claim("second", b.Request("x", "big"))},
			[][]string{{"x=p/other"}, {"x=p/any"}},
		},
		"held devices are passed over": {
			nodeWith(2, gpus(4)...), []*b.ClaimBuilder{wants(2)}, [][]string{{"gpu=p/gpu-2", "gpu=p/gpu-3"}},
		},
	})
}

func TestRequests(t *testing.T) {
	big := b.Class("big", isBig)
	mixed := nodeWith(0, b.Device("s").Attr("model", "small"), b.Device("l-0").Attr("model", "big"), b.Device("l-1").Attr("model", "big")).
		withClasses(big, b.Class("none", "false"))
	alternatives := func(list ...*b.RequestBuilder) []*b.ClaimBuilder {
		return []*b.ClaimBuilder{b.Claim("c", b.FirstAvailable("r", list...))}
	}
	checkFits(t, map[string]fitCase{
		"no claims": {mixed, nil, nil},
		"a claim without requests": {
			mixed, []*b.ClaimBuilder{b.Claim("empty"), b.Claim("c", b.Request("r", "gpu"))}, [][]string{nil, {"r=p/s"}},
		},
		"exactly": {mixed, []*b.ClaimBuilder{b.Claim("c", b.Request("r", "big").Count(2))}, [][]string{{"r=p/l-0", "r=p/l-1"}}},
		"class and request selectors": {
			mixed, []*b.ClaimBuilder{b.Claim("c", b.Request("r", "gpu").Where(isSmall))}, [][]string{{"r=p/s"}},
		},
		"all": {mixed, []*b.ClaimBuilder{b.Claim("c", b.Request("r", "big").All())}, [][]string{{"r=p/l-0", "r=p/l-1"}}},
		"all of two pools, not those of other nodes": {
			cluster{}.and(onNode("p", gpus(1)...), b.NodeSlice("other", gpus(1)...), b.Slice("q").OnAllNodes().Devices(gpus(2)...)),
			[]*b.ClaimBuilder{wantsAll()}, [][]string{{"gpu=p/gpu-0", "gpu=q/gpu-0", "gpu=q/gpu-1"}},
		},
		"the first alternative": {
			mixed, alternatives(b.Request("a", "big"), b.Request("b", "gpu")), [][]string{{"r/a=p/l-0"}},
		},
		"the second alternative": {
			mixed, alternatives(b.Request("a", "big").Count(3), b.Request("b", "gpu").Count(2)), [][]string{{"r/b=p/s", "r/b=p/l-0"}},
		},
		"an alternative that wants all": {
			mixed, alternatives(b.Request("a", "none").All(), b.Request("b", "big").All()), [][]string{{"r/b=p/l-0", "r/b=p/l-1"}},
		},
		"a later request needs another alternative": {
			mixed,
			[]*b.ClaimBuilder{b.Claim("c", b.FirstAvailable("r", b.Request("a", "big").Count(2), b.Request("b", "big")), b.Request("x", "big"))},
			[][]string{{"r/b=p/l-0", "x=p/l-1"}},
		},
		"a later claim needs another alternative": {
			mixed,
			append(alternatives(b.Request("a", "big").Count(2), b.Request("b", "big")), b.Claim("d", b.Request("x", "big"))),
			[][]string{{"r/b=p/l-0"}, {"x=p/l-1"}},
		},
		"an alternative with more devices than a claim can have": {
			nodeWith(0, gpus(40)...),
			[]*b.ClaimBuilder{b.Claim("c", b.FirstAvailable("r", b.Request("a", "gpu").Count(33), b.Request("b", "gpu")))},
			[][]string{{"r/b=p/gpu-0"}},
		},
		"an alternative that leaves no room for the next request": {
			nodeWith(0, gpus(40)...),
			[]*b.ClaimBuilder{b.Claim("c", b.FirstAvailable("r", b.Request("a", "gpu").Count(32), b.Request("b", "gpu")), b.Request("x", "gpu"))},
			[][]string{{"r/b=p/gpu-0", "x=p/gpu-1"}},
		},
		"all of so many devices that there is no room": {
			nodeWith(0, append(b.Devices("s"), attributed("model", "big", gpus(32))...)...).withClasses(big),
			[]*b.ClaimBuilder{b.Claim("c", b.Request("x", "gpu"), b.FirstAvailable("r", b.Request("a", "big").All(), b.Request("b", "gpu")))},
			[][]string{{"x=p/s", "r/b=p/gpu-0"}},
		},
		"two claims with more devices than one claim can have": {
			nodeWith(0, gpus(40)...),
			[]*b.ClaimBuilder{b.Claim("c", b.Request("x", "gpu").Count(32)), b.Claim("d", b.Request("x", "gpu").Count(8))},
			[][]string{prefixed("x=p/gpu-", 0, 32), prefixed("x=p/gpu-", 32, 40)},
		},
	})
}

func TestTaints(t *testing.T) {
	const noExecute, informative = resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone
	devices := []*b.DeviceBuilder{
		b.Device("schedule").Taint("a", resourceapi.DeviceTaintEffectNoSchedule),
		b.Device("execute").Taint("b", noExecute),
		b.Device("both").Taint("a", resourceapi.DeviceTaintEffectNoSchedule).Taint("b", noExecute),
		b.Device("none").Taint("c", informative),
		b.Device("unknown").Taint("d", "NoIdea"),
	}
	one := func(r *b.RequestBuilder) []*b.ClaimBuilder { return []*b.ClaimBuilder{b.Claim("c", r)} }
	off := without(func(f *structured.Features) { f.DeviceTaints = false })
	checkFits(t, map[string]fitCase{
		"effects that are informative or unknown do not count": {
			nodeWith(0, devices...), one(b.Request("r", "gpu").Count(2)), [][]string{{"r=p/none", "r=p/unknown"}},
		},
		"one is tolerated": {
			nodeWith(0, devices...), one(b.Request("r", "gpu").Tolerate("a")), [][]string{{"r=p/schedule"}},
		},
		"every taint has to be tolerated": {
			nodeWith(0, devices[2:]...), one(b.Request("r", "gpu").Tolerate("a")), [][]string{{"r=p/none"}},
		},
		"two tolerations": {
			nodeWith(0, devices[2:]...), one(b.Request("r", "gpu").Tolerate("a").Tolerate("b")), [][]string{{"r=p/both"}},
		},
		"everything is tolerated": {
			nodeWith(0, devices...), one(b.Request("r", "gpu").Count(3).Tolerate("")), [][]string{{"r=p/schedule", "r=p/execute", "r=p/both"}},
		},
		"the alternative that tolerates": {
			nodeWith(0, devices[:1]...), one(b.FirstAvailable("r", b.Request("strict", "gpu"), b.Request("lenient", "gpu").Tolerate("a"))),
			[][]string{{"r/lenient=p/schedule"}},
		},
		"the feature is off": {
			nodeWith(0, devices...).withFeatures(off), one(b.Request("r", "gpu")), [][]string{{"r=p/schedule"}},
		},
	})
}

func TestAdminAccess(t *testing.T) {
	admin := func(name string, n int64) *b.ClaimBuilder {
		return b.Claim(name, b.Request("r", "gpu").Count(n).Admin())
	}
	checkFits(t, map[string]fitCase{
		"held devices are not passed over": {
			nodeWith(2, gpus(2)...), []*b.ClaimBuilder{admin("a", 2)}, [][]string{{"r=p/gpu-0", "r=p/gpu-1"}},
		},
		"two claims have access to the same devices": {
			nodeWith(0, gpus(2)...), []*b.ClaimBuilder{admin("a", 2), admin("b", 2)},
			[][]string{{"r=p/gpu-0", "r=p/gpu-1"}, {"r=p/gpu-0", "r=p/gpu-1"}},
		},
		"access to what another claim gets": {
			nodeWith(0, gpus(1)...), []*b.ClaimBuilder{b.Claim("a", b.Request("r", "gpu")), admin("b", 1)},
			[][]string{{"r=p/gpu-0"}, {"r=p/gpu-0"}},
		},
		"what one claim has access to is free for a later one": {
			nodeWith(0, gpus(2)...), []*b.ClaimBuilder{admin("a", 1), b.Claim("b", b.Request("r", "gpu"))},
			[][]string{{"r=p/gpu-0"}, {"r=p/gpu-0"}},
		},
		"not twice in a claim": {
			nodeWith(0, gpus(2)...), []*b.ClaimBuilder{b.Claim("a", b.Request("x", "gpu").Admin(), b.Request("y", "gpu").Admin())},
			[][]string{{"x=p/gpu-0", "y=p/gpu-1"}},
		},
		"all, also those that are held": {
			nodeWith(1, gpus(2)...), []*b.ClaimBuilder{b.Claim("a", b.Request("r", "gpu").All().Admin())},
			[][]string{{"r=p/gpu-0", "r=p/gpu-1"}},
		},
	})
}

// attributed sets an attribute of all devices to one value.
func attributed(attribute string, value any, devices []*b.DeviceBuilder) []*b.DeviceBuilder {
	for _, device := range devices {
		device.Attr(attribute, value)
	}
	return devices
}

// prefixed lists prefix with the numbers from a up to, but not including, z.
func prefixed(prefix string, a, z int) []string {
	var list []string
	for _, name := range names("", z)[a:] {
		list = append(list, prefix+name[1:])
	}
	return list
}
