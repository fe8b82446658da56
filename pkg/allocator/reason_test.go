package allocator_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// wants makes claim train/gpus with one request for a number of devices.
func wants(n int64) *b.ClaimBuilder {
	return b.Claim("gpus", b.Request("gpu", "gpu").Count(n)).In("train")
}

// wantsAll makes claim train/gpus with one request for all devices.
func wantsAll() *b.ClaimBuilder {
	return b.Claim("gpus", b.Request("gpu", "gpu").All()).In("train")
}

// tainted taints the first n devices.
func tainted(n int, devices []*b.DeviceBuilder) []*b.DeviceBuilder {
	for _, device := range devices[:n] {
		device.Taint("broken", resourceapi.DeviceTaintEffectNoSchedule)
	}
	return devices
}

// numbered sets an attribute of the devices to the values in turn.
func numbered(devices []*b.DeviceBuilder, attribute string, values ...int) []*b.DeviceBuilder {
	for i, device := range devices {
		device.Attr(attribute, values[i%len(values)])
	}
	return devices
}

// node is a cluster with pool p of devices on the node, the first of which are held.
func nodeWith(held int, devices ...*b.DeviceBuilder) cluster {
	c := cluster{slices: []*b.SliceBuilder{onNode("p", devices...)}}
	if held > 0 {
		c.held = []*resourceapi.ResourceClaim{heldBy("others", "p", names("gpu", held)...)}
	}
	return c
}

// partitions is a cluster with n partitions of 40Gi of a device that has 80Gi.
func partitions(held, n int) cluster {
	list := gpus(n)
	for _, device := range list {
		device.Consumes("device", "memory", "40Gi")
	}
	c := nodeWith(held)
	c.slices = []*b.SliceBuilder{
		b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("device", "memory", "80Gi"),
		b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(list...),
	}
	return c
}

// and adds slices to a cluster.
func (c cluster) and(slices ...*b.SliceBuilder) cluster {
	c.slices = append(c.slices, slices...)
	return c
}

// withClasses adds classes to a cluster.
func (c cluster) withClasses(classes ...*resourceapi.DeviceClass) cluster {
	c.classes = append(c.classes, classes...)
	return c
}

// withFeatures replaces the features of a cluster.
func (c cluster) withFeatures(features *structured.Features) cluster {
	c.features = features
	return c
}

type reasonCase struct {
	cluster cluster
	claims  []*b.ClaimBuilder // default: one device
	want    string
}

func checkReasons(t *testing.T, tests map[string]reasonCase) {
	t.Parallel()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.claims == nil {
				tc.claims = []*b.ClaimBuilder{wants(1)}
			}
			outcome := tc.cluster.mustNotFit(t, tc.claims...)
			require.Equal(t, tc.want, outcome.Reason())
			require.Equal(t, tc.want, outcome.Reason(), "asked again")
		})
	}
}

func TestReasonOfOneRequest(t *testing.T) {
	checkReasons(t, map[string]reasonCase{
		"no devices anywhere": {
			want: "claim train/gpus request gpu: the node has no devices that can be used",
		},
		"devices on another node": {
			cluster: cluster{slices: []*b.SliceBuilder{b.NodeSlice("other", gpus(1)...)}},
			want:    "claim train/gpus request gpu: the node has no devices that can be used",
		},
		"devices of the pool on another node": {
			cluster: cluster{}.and(b.Slice("p").PerDevice().Devices(b.Device("a").OnNode("other"), b.Device("b").OnNode("n"))),
			claims:  []*b.ClaimBuilder{wants(2)},
			want:    "claim train/gpus request gpu: 1 device matches: 2 asked",
		},
		"none matches": {
			cluster: nodeWith(0, gpus(2)...).withClasses(b.Class("big", isBig)),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("gpu", "big"))},
			want:    "claim default/gpus request gpu: no device matches class big",
		},
		"the selectors of the request": {
			cluster: nodeWith(0, gpus(2)...),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("gpu", "gpu").Where(isBig))},
			want:    "claim default/gpus request gpu: no device matches: 2 of class gpu but the selectors of the request rule them out",
		},
		"matching devices of the pool on another node": {
			cluster: cluster{}.and(b.Slice("p").PerDevice().Devices(b.Device("a").Attr("model", "big").OnNode("other"), b.Device("b").OnNode("n"))),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("gpu", "gpu").Where(isBig))},
			want:    "claim default/gpus request gpu: no device matches on this node: those that match are for other nodes",
		},
		"all held, 1": {
			cluster: nodeWith(1, gpus(1)...),
			want:    "claim train/gpus request gpu: 1 device matches: 1 asked; 0 free; 1 held by another claim",
		},
		"all held, 8": {
			cluster: nodeWith(8, gpus(8)...),
			claims:  []*b.ClaimBuilder{wants(4)},
			want:    "claim train/gpus request gpu: 8 devices match: 4 asked; 0 free; 8 held by other claims",
		},
		"some held": {
			cluster: nodeWith(5, gpus(8)...),
			claims:  []*b.ClaimBuilder{wants(4)},
			want:    "claim train/gpus request gpu: 8 devices match: 4 asked; 3 free; 5 held by other claims",
		},
		"tainted, 1": {
			cluster: nodeWith(0, tainted(1, gpus(1))...),
			want:    "claim train/gpus request gpu: 1 device matches: 1 asked; 0 free; 1 has a taint that is not tolerated (broken)",
		},
		"tainted, 2": {
			cluster: nodeWith(0, tainted(2, gpus(2))...),
			want:    "claim train/gpus request gpu: 2 devices match: 1 asked; 0 free; 2 have taints that are not tolerated (broken)",
		},
		"tainted and held": {
			cluster: nodeWith(2, tainted(3, gpus(3))...),
			want:    "claim train/gpus request gpu: 3 devices match: 1 asked; 0 free; 3 have taints that are not tolerated (broken)",
		},
		"some tainted, some held": {
			cluster: nodeWith(1, tainted(2, gpus(3))...),
			claims:  []*b.ClaimBuilder{wants(2)},
			want:    "claim train/gpus request gpu: 3 devices match: 2 asked; 1 free; 2 have taints that are not tolerated (broken)",
		},
		"fewer published than wanted": {
			cluster: nodeWith(0, gpus(2)...),
			claims:  []*b.ClaimBuilder{wants(4)},
			want:    "claim train/gpus request gpu: 2 devices match: 4 asked",
		},
		"fewer published than wanted, and those are held": {
			cluster: nodeWith(2, gpus(2)...),
			claims:  []*b.ClaimBuilder{wants(4)},
			want:    "claim train/gpus request gpu: 2 devices match: 4 asked",
		},
		"all wanted, some held": {
			cluster: nodeWith(1, gpus(8)...),
			claims:  []*b.ClaimBuilder{wantsAll()},
			want:    "claim train/gpus request gpu: 8 devices match: all asked; 7 free; 1 held by another claim",
		},
		"all wanted, all held": {
			cluster: nodeWith(8, gpus(8)...),
			claims:  []*b.ClaimBuilder{wantsAll()},
			want:    "claim train/gpus request gpu: 8 devices match: all asked; 0 free; 8 held by other claims",
		},
		"all wanted, the only one is held": {
			cluster: nodeWith(1, gpus(1)...),
			claims:  []*b.ClaimBuilder{wantsAll()},
			want:    "claim train/gpus request gpu: 1 device matches: all asked; 0 free; 1 held by another claim",
		},
		"all wanted, none there": {
			claims: []*b.ClaimBuilder{wantsAll()},
			want:   "claim train/gpus request gpu: the node has no devices that can be used",
		},
		"no alternative": {
			cluster: nodeWith(1, gpus(4)...).withClasses(b.Class("big", isBig)),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.FirstAvailable("gpu",
				b.Request("large", "big").Count(2), b.Request("many", "gpu").Count(4)))},
			want: "claim default/gpus request gpu: no alternative fits [large: no device matches class big] [many: 4 devices match: 4 asked; 3 free; 1 held by another claim]",
		},
		"an alternative that no claim can have": {
			cluster: nodeWith(0, gpus(40)...).withClasses(b.Class("big", isBig)),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.FirstAvailable("gpu",
				b.Request("many", "gpu").Count(33), b.Request("large", "big")))},
			want: "claim default/gpus request gpu: no alternative fits [many: 33 devices asked for but a claim can have at most 32] [large: no device matches class big]",
		},
		"the second request": {
			cluster: nodeWith(0, gpus(4)...).withClasses(b.Class("big", isBig)),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("gpu", "gpu"), b.Request("large", "big"))},
			want:    "claim default/gpus request large: no device matches class big",
		},
		"admin access, fewer published than wanted": {
			cluster: nodeWith(1, gpus(2)...),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("gpu", "gpu").Count(3).Admin())},
			want:    "claim default/gpus request gpu: 2 devices match: 3 asked",
		},
		"admin access, held and tainted": {
			cluster: nodeWith(1, tainted(2, gpus(2))...),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("gpu", "gpu").Admin())},
			want:    "claim default/gpus request gpu: 2 devices match: 1 asked; 0 free; 2 have taints that are not tolerated (broken)",
		},
	})
}

func TestReasonOfPartitionsAndFeatures(t *testing.T) {
	noPartitions := without(func(f *structured.Features) { f.PartitionableDevices = false })
	conditional := b.Device("gpu-0").BindingCondition("attached")
	checkReasons(t, map[string]reasonCase{
		"counters are exhausted": {
			cluster: partitions(2, 4),
			want:    "claim train/gpus request gpu: 4 devices match: 1 asked; 0 free; 2 held by other claims; 2 draw on counters that have too little left (memory: 40Gi asked and 0 of 80Gi left)",
		},
		"counters suffice for one": {
			cluster: partitions(1, 4),
			claims:  []*b.ClaimBuilder{wants(2)},
			want:    "claim train/gpus request gpu: enough devices match and are free but too little is left of the counters that they share (memory)",
		},
		"counters never suffice": {
			cluster: partitions(0, 4),
			claims:  []*b.ClaimBuilder{wants(3)},
			want:    "claim train/gpus request gpu: enough devices match and are free but too little is left of the counters that they share (memory)",
		},
		"counters do not suffice for both requests": {
			cluster: partitions(0, 4),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "gpu"), b.Request("two", "gpu").Count(2))},
			want:    "claim default/gpus: there are devices for each of its requests alone but the counters that they share do not suffice for all (memory)",
		},
		"counters do not suffice for both claims": {
			cluster: partitions(1, 4),
			claims:  []*b.ClaimBuilder{wants(1), b.Claim("more", b.Request("gpu", "gpu"))},
			want:    "claims train/gpus and default/more: there are devices for each of them alone but the counters that they share do not suffice for all (memory)",
		},
		"partitions are off": {
			// The slice with counters is ignored, so only the devices count.
			cluster: partitions(0, 1).withFeatures(noPartitions),
			want:    "claim train/gpus request gpu: 1 device matches: 1 asked; 0 free; 1 needs a feature that is off (DRAPartitionableDevices)",
		},
		"binding conditions are off": {
			cluster: nodeWith(0, conditional),
			want:    "claim train/gpus request gpu: 1 device matches: 1 asked; 0 free; 1 needs a feature that is off (DRADeviceBindingConditions)",
		},
		"binding conditions are off for one of two": {
			cluster: nodeWith(0, conditional, b.Device("gpu-1")),
			claims:  []*b.ClaimBuilder{wants(2)},
			want:    "claim train/gpus request gpu: 2 devices match: 2 asked; 1 free; 1 needs a feature that is off (DRADeviceBindingConditions)",
		},
		"all wanted: devices do not count if the feature is off": {
			cluster: nodeWith(0, conditional, b.Device("gpu-1")),
			claims:  []*b.ClaimBuilder{wantsAll(), b.Claim("more", b.Request("gpu", "gpu"))},
			want:    "claims train/gpus and default/more want 2 devices of class gpu together; 2 match; at most 1 could be had; the rest need a feature that is off (DRADeviceBindingConditions)",
		},
	})
}

func TestReasonOfPools(t *testing.T) {
	unfinished := func(name string) *b.SliceBuilder {
		return b.Slice(name).InPool(name, 1, 2).OnNode("n").Devices(gpus(2)...)
	}
	const updating = "; resource pool gpu.example.com/u is left out because its driver is updating it"
	const invalid = "; resource pool gpu.example.com/twice is left out as invalid (device name gpu-0 is not unique)"
	twice := onNode("twice", b.Device("gpu-0"), b.Device("gpu-0"))
	checkReasons(t, map[string]reasonCase{
		"the only pool is incomplete": {
			cluster: cluster{}.and(unfinished("u")),
			want:    "claim train/gpus request gpu: the node has no devices that can be used" + updating,
		},
		"two pools are incomplete": {
			cluster: nodeWith(1, gpus(1)...).and(unfinished("u"), unfinished("v")),
			want:    "claim train/gpus request gpu: 1 device matches: 1 asked; 0 free; 1 held by another claim; 2 of the node's resource pools are left out because their drivers are updating them",
		},
		"the only pool is named after the node": {
			cluster: cluster{node: b.Node("node-7")}.and(b.Slice("node-7-gpus").InPool("node-7-gpus", 1, 2).OnNode("node-7").Devices(gpus(1)...)),
			want:    "claim train/gpus request gpu: the node has no devices that can be used; the node's resource pool of driver gpu.example.com is left out because its driver is updating it",
		},
		"devices with compatibility groups are ignored": {
			cluster: withCounters(grouped("mig", "vgpu")...).and(unfinished("u")),
			want: "claim train/gpus request gpu: the node has no devices that can be used" + updating +
				"; resource pool gpu.example.com/p is left out because it needs a feature that is off (DRADeviceCompatibilityGroups)",
		},
		"the only pool is invalid": {
			cluster: cluster{}.and(twice),
			want:    "claim train/gpus request gpu: the node has no devices that can be used" + invalid,
		},
		"a pool is invalid, another incomplete": {
			cluster: nodeWith(0, gpus(1)...).and(twice, unfinished("u")),
			claims:  []*b.ClaimBuilder{wants(2)},
			want:    "claim train/gpus request gpu: 1 device matches: 2 asked" + updating + invalid,
		},
		"a pool is invalid, and claims compete": {
			cluster: nodeWith(0, gpus(1)...).and(twice),
			claims:  []*b.ClaimBuilder{wants(1), b.Claim("more", b.Request("gpu", "gpu"))},
			want:    "claims train/gpus and default/more want 2 devices of class gpu together; 1 matches" + invalid,
		},
	})
}
