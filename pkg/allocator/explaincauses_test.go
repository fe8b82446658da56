package allocator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// everything has all features on.
func (c cluster) everything() cluster {
	features := allocator.Supported
	return c.withFeatures(&features)
}

// sharedWith is a claim that has shares of a device in pool p.
func sharedWith(name, device, capacity string, amounts ...string) *resourceapi.ResourceClaim {
	claim := b.Claim(name, b.Request("gpu", "gpu")).Allocated("p")
	for _, amount := range amounts {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{
				Request: "gpu", Driver: b.Driver, Pool: "p", Device: device,
				ShareID:          ptr.To(types.UID(name + amount)),
				ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{resourceapi.QualifiedName(capacity): resource.MustParse(amount)},
			})
	}
	return claim
}

// wantsCapacity makes claim train/gpus with one request for a capacity of one device.
func wantsCapacity(name, amount string) *b.ClaimBuilder {
	return b.Claim("gpus", b.Request("gpu", "gpu").Modify(func(r *resourceapi.ExactDeviceRequest) {
		r.Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{resourceapi.QualifiedName(name): resource.MustParse(amount)},
		}
	})).In("train")
}

// holding makes n claims that have a device each.
func holding(n int) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for i, name := range names("claim", n) {
		claims = append(claims, heldBy(name, "p", names("gpu", n)[i]))
	}
	return claims
}

func bandwidth(amounts ...string) []*b.DeviceBuilder {
	devices := gpus(len(amounts))
	for i, amount := range amounts {
		devices[i].Shared().Capacity("bandwidth", amount)
	}
	return devices
}

// withPolicy gives all capacities of devices a request policy.
func withPolicy(policy resourceapi.CapacityRequestPolicy, devices ...*b.DeviceBuilder) []*b.DeviceBuilder {
	for _, device := range devices {
		device.Modify(func(d *resourceapi.Device) {
			for name, capacity := range d.Capacity {
				capacity.RequestPolicy = &policy
				d.Capacity[name] = capacity
			}
		})
	}
	return devices
}

// ranged is a policy with a default of its minimum.
func ranged(least, most, step string) resourceapi.CapacityRequestPolicy {
	return resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse(least)), ValidRange: &resourceapi.CapacityRequestPolicyRange{
		Min: ptr.To(resource.MustParse(least)), Max: ptr.To(resource.MustParse(most)), Step: ptr.To(resource.MustParse(step)),
	}}
}

// valued is a policy with a default of the first value.
func valued(values ...string) resourceapi.CapacityRequestPolicy {
	policy := resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse(values[0]))}
	for _, value := range values {
		policy.ValidValues = append(policy.ValidValues, resource.MustParse(value))
	}
	return policy
}

// grouped makes devices that draw on one counter, with a compatibility group each.
func grouped(groups ...string) []*b.DeviceBuilder {
	devices := gpus(len(groups))
	for i, group := range groups {
		devices[i].Consumes("device", "memory", "1").Modify(func(d *resourceapi.Device) {
			d.ConsumesCounters[0].CompatibilityGroups = []string{group}
		})
	}
	return devices
}

// withCounters is a cluster with devices that draw on a counter set of 80Gi memory.
func withCounters(devices ...*b.DeviceBuilder) cluster {
	return cluster{slices: []*b.SliceBuilder{
		b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("device", "memory", "80Gi"),
		b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(devices...),
	}}
}

// TestExplainCauses has one case per cause: its short and its long text.
func TestExplainCauses(t *testing.T) {
	t.Parallel()
	skipping := func(s *resourceapi.ResourceSlice) {
		s.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	}
	inUse := nodeWith(0, bandwidth("10", "8")...).everything()
	inUse.held = append(inUse.held, sharedWith("a", "gpu-0", "bandwidth", "5", "2"), sharedWith("b", "gpu-1", "bandwidth", "4"))
	manyHolders := nodeWith(0, gpus(7)...)
	manyHolders.held = holding(7)
	overdrawn := withCounters(b.Device("gpu-0").Consumes("device", "memory", "100Gi"), b.Device("gpu-1").Consumes("device", "memory", "0"))
	overdrawn.held = append(overdrawn.held, heldBy("old", "p", "gpu-0"))
	withdrawn := withCounters(b.Device("gpu-0").Consumes("device", "memory", "10Gi"), b.Device("gpu-1").Consumes("device", "memory", "10Gi"))
	withdrawn.held = append(withdrawn.held, heldBy("old", "p", "gpu-9"))
	twoSets := withCounters(
		b.Device("gpu-0").Consumes("one", "memory", "30Gi", "engines", "2"), b.Device("gpu-1").Consumes("two", "memory", "30Gi"),
		b.Device("gpu-2").Consumes("one", "memory", "30Gi", "engines", "2"), b.Device("gpu-3").Consumes("two", "memory", "20Gi"))
	twoSets.slices[0].Counters("one", "memory", "40Gi", "engines", "2").Counters("two", "memory", "40Gi")
	twoSets.held = append(twoSets.held, heldBy("old", "p", "gpu-0", "gpu-1"))
	incompatible := withCounters(grouped("mig", "vgpu")...).everything()
	incompatible.held = append(incompatible.held, heldBy("old", "p", "gpu-0"))
	for name, tc := range map[string]struct {
		cluster cluster
		claim   *b.ClaimBuilder
		short   string
		long    []string // lines about the request
		cause   allocator.Cause
	}{
		"unreachable": {
			cluster: cluster{}.and(b.Slice("p").PerDevice().Devices(b.Device("a").OnNode("other"), b.Device("b").OnNode("n"))),
			claim:   wants(2),
			short:   "1 device matches: 2 asked",
			long:    []string{"2 devices published for the node, 2 of the class, 2 matching, 1 available: 1 too few", "1 is for other nodes"},
			cause:   allocator.Unreachable,
		},
		"a feature is off on the node": {
			cluster: cluster{}.and(onNode("p", gpus(2)...).Modify(skipping)).everything(),
			short:   "2 devices match: 1 asked; 0 free; 2 need a feature that is off (DRAOptionalNodeOperations on the node)",
			long:    []string{"2 need a feature that is off: DRAOptionalNodeOperations on the node"},
			cause:   allocator.Unsupported,
		},
		"a feature is off": {
			cluster: cluster{}.and(onNode("p", gpus(2)...).Modify(skipping)),
			short:   "2 devices match: 1 asked; 0 free; 2 need a feature that is off (DRAOptionalNodeOperations)",
			long:    []string{"2 need a feature that is off: DRAOptionalNodeOperations"},
			cause:   allocator.Unsupported,
		},
		"two features are off": {
			cluster: nodeWith(0, b.Device("a").BindingCondition("ready"), b.Device("b").Consumes("device", "memory", "1")).
				withFeatures(without(func(f *structured.Features) { f.PartitionableDevices = false })),
			short: "2 devices match: 1 asked; 0 free; 2 need a feature that is off (DRADeviceBindingConditions; DRAPartitionableDevices)",
			long:  []string{"2 need a feature that is off: DRADeviceBindingConditions (1), DRAPartitionableDevices (1)"},
			cause: allocator.Unsupported,
		},
		"too small": {
			cluster: nodeWith(0, bandwidth("10", "8")...).everything(), claim: wantsCapacity("bandwidth", "11"),
			short: "2 devices match: 1 asked; 0 free; 2 lack the capacity asked for (bandwidth: 11 asked and 10 there)",
			long:  []string{"2 lack the capacity asked for: bandwidth: 11 asked and 10 there (1), bandwidth: 11 asked and 8 there (1)"},
			cause: allocator.TooSmall,
		},
		"no such capacity": {
			cluster: nodeWith(0, bandwidth("10")...).everything(), claim: wantsCapacity("memory", "1Gi"),
			short: "1 device matches: 1 asked; 0 free; 1 lacks the capacity asked for (memory: not published)",
			long:  []string{"1 lacks the capacity asked for: memory: not published"},
			cause: allocator.TooSmall,
		},
		"more than the greatest step of a request policy": {
			cluster: nodeWith(0, withPolicy(ranged("1", "8", "2"), bandwidth("10", "8")...)...).everything(), claim: wantsCapacity("bandwidth", "9"),
			short: "2 devices match: 1 asked; 0 free; 2 lack the capacity asked for (bandwidth: 9 asked and the request policy allows at most 8)",
			long:  []string{"2 lack the capacity asked for: bandwidth: 9 asked and the request policy allows at most 8"},
			cause: allocator.TooSmall,
		},
		"more than the greatest value of a request policy": {
			cluster: nodeWith(0, withPolicy(valued("4", "16"), bandwidth("20")...)...).everything(), claim: wantsCapacity("bandwidth", "17"),
			short: "1 device matches: 1 asked; 0 free; 1 lacks the capacity asked for (bandwidth: 17 asked and the request policy allows at most 16)",
			long:  []string{"1 lacks the capacity asked for: bandwidth: 17 asked and the request policy allows at most 16"},
			cause: allocator.TooSmall,
		},
		"an attribute is missing": {
			cluster: nodeWith(0, gpus(2)...), claim: wants(1).Match("gpu.example.com/numa"),
			short: "2 devices match: 1 asked; 0 free; 2 lack an attribute that a constraint needs (gpu.example.com/numa)",
			long:  []string{"2 lack an attribute that a constraint needs: gpu.example.com/numa"},
			cause: allocator.AttributeMissing,
		},
		"tainted": {
			cluster: nodeWith(0, tainted(3, gpus(3))...).and(onNode("q", b.Device("x").Modify(func(d *resourceapi.Device) {
				d.Taints = []resourceapi.DeviceTaint{
					{Key: "maintenance", Value: "today", Effect: resourceapi.DeviceTaintEffectNoExecute}, {Key: "note", Effect: resourceapi.DeviceTaintEffectNone},
				}
			}))),
			short: "4 devices match: 1 asked; 0 free; 4 have taints that are not tolerated (broken; maintenance)",
			long:  []string{"4 have taints that are not tolerated: broken:NoSchedule (3), maintenance=today:NoExecute (1)"},
			cause: allocator.Tainted,
		},
		"held by one": {
			cluster: nodeWith(2, gpus(2)...),
			short:   "2 devices match: 1 asked; 0 free; 2 held by other claims",
			long:    []string{"2 held by other claims: default/others (2)"},
			cause:   allocator.Held,
		},
		"held by many": {
			cluster: manyHolders,
			short:   "7 devices match: 1 asked; 0 free; 7 held by other claims",
			long:    []string{"7 held by other claims: default/claim-0 (1), default/claim-1 (1), default/claim-2 (1), default/claim-3 (1), default/claim-4 (1) and 2 more claims"},
			cause:   allocator.Held,
		},
		"full": {
			cluster: inUse, claim: wantsCapacity("bandwidth", "6"),
			short: "2 devices match: 1 asked; 0 free; 2 have too little capacity left (bandwidth: 6 asked and 4 of 8 left)",
			long: []string{
				"2 have too little capacity left; in use by default/a (1), default/b (1)",
				"  bandwidth: gpu.example.com/p/gpu-1 needs 6, 4 left, 2 short",
			},
			cause: allocator.Full,
		},
		"short of a counter": {
			cluster: partitions(2, 3),
			short:   "3 devices match: 1 asked; 0 free; 2 held by other claims; 1 draws on counters that have too little left (memory: 40Gi asked and 0 of 80Gi left)",
			long: []string{
				"2 held by other claims: default/others (2)",
				"1 draws on counters that have too little left",
				"  device: memory (40Gi needed, 0 left); in use by default/others (gpu-0 and gpu-1)",
			},
			cause: allocator.CounterShort,
		},
		"short of counters with the same name": {
			cluster: twoSets,
			short:   "4 devices match: 1 asked; 0 free; 2 held by other claims; 2 draw on counters that have too little left (engines: 2 asked and 0 of 2 left; memory: 20Gi asked and 10Gi of 40Gi left)",
			long: []string{
				"2 held by other claims: default/old (2)",
				"2 draw on counters that have too little left",
				"  one: engines (2 needed, 0 left) and memory (30Gi needed, 10Gi left); in use by default/old (gpu-0)",
				"  two: memory (20Gi needed, 10Gi left); in use by default/old (gpu-1)",
			},
			cause: allocator.CounterShort,
		},
		"overdrawn": {
			cluster: overdrawn,
			short:   "2 devices match: 1 asked; 0 free; 1 held by another claim; 1 draws on counters that have too little left (memory: 0 asked and -20Gi of 80Gi left)",
			long: []string{
				"1 draws on counters that have too little left",
				"  device: memory (0 needed, -20Gi left); in use by default/old (gpu-0)",
			},
			cause: allocator.CounterShort,
		},
		"a device in use is not published any more": {
			cluster: withdrawn,
			short:   "2 devices match: 1 asked; 0 free; 2 draw on the same counters as devices in use that are not published any more (gpu-9)",
			long: []string{
				"2 draw on the same counters as devices in use that are not published any more: gpu.example.com/p/gpu-9; in use by default/old (1)",
			},
			cause: allocator.CounterUnknown,
		},
		"incompatible": {
			cluster: incompatible,
			short:   "2 devices match: 1 asked; 0 free; 1 held by another claim; 1 not compatible with devices in use",
			long:    []string{"1 not compatible with devices in use"},
			cause:   allocator.Incompatible,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.claim == nil {
				tc.claim = wants(1)
			}
			explanation := tc.cluster.mustNotFit(t, tc.claim).Explain()
			require.Equal(t, "claim train/gpus request gpu: "+tc.short, explanation.Reason)
			lines := strings.Split(explanation.String(), "\n")
			for _, line := range tc.long {
				require.Contains(t, lines, "      "+line)
			}
			causes := map[allocator.Cause]bool{}
			for _, obstacle := range explanation.Claims[0].Requests[0].Obstacles {
				causes[obstacle.Cause] = true
			}
			require.Contains(t, causes, tc.cause)
			require.Empty(t, explanation.Combination, "the request lacks devices for itself")
		})
	}
}
