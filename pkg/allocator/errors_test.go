package allocator_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// errorCase is a search that fails with an error that no node can cure.
type errorCase struct {
	cluster cluster
	claim   *b.ClaimBuilder
	want    string
	// static errors are found without looking at a node.
	static bool
}

func checkErrors(t *testing.T, tests map[string]errorCase) {
	t.Parallel()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.cluster.solve(t.Context(), tc.claim)
			require.EqualError(t, err, tc.want)
			require.False(t, allocator.IsNodeError(err))

			err = tc.cluster.solver().Prepare(objects([]*b.ClaimBuilder{tc.claim})).Err()
			if tc.static {
				require.EqualError(t, err, tc.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// claimOf makes claim default/c with one request, changed by hand.
func claimOf(change func(*resourceapi.ExactDeviceRequest)) *b.ClaimBuilder {
	return b.Claim("c", b.Request("r", "gpu").Modify(change))
}

func TestErrorsOfClaims(t *testing.T) {
	const unknownAPI = "it may use an API that this scheduler does not know"
	bare := b.Claim("c").Modify(func(c *resourceapi.ResourceClaim) {
		c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r"}}
	})
	future := b.Class("future")
	future.Spec.Selectors = make([]resourceapi.DeviceSelector, 1)
	checkErrors(t, map[string]errorCase{
		"no class": {
			claim:  claimOf(func(r *resourceapi.ExactDeviceRequest) { r.DeviceClassName = "" }),
			want:   "claim default/c request r: names no device class; " + unknownAPI,
			static: true,
		},
		"a class that does not exist": {
			claim:  b.Claim("c", b.Request("r", "missing")),
			want:   "claim default/c request r: device class missing does not exist",
			static: true,
		},
		"a class that does not exist, in an alternative": {
			claim:  b.Claim("c", b.FirstAvailable("r", b.Request("z", "missing"), b.Request("y", "missing"))),
			want:   "claim default/c request r/z: device class missing does not exist",
			static: true,
		},
		"an unknown allocation mode": {
			claim:  claimOf(func(r *resourceapi.ExactDeviceRequest) { r.AllocationMode = "Some" }),
			want:   `claim default/c request r: allocation mode "Some" is not known; known are ExactCount and All`,
			static: true,
		},
		"neither exactly nor firstAvailable": {
			claim:  bare,
			want:   "claim default/c request r: neither exactly nor firstAvailable is set; the request may use an API that this scheduler does not know",
			static: true,
		},
		"a selector that is no CEL expression": {
			claim:  claimOf(func(r *resourceapi.ExactDeviceRequest) { r.Selectors = make([]resourceapi.DeviceSelector, 1) }),
			want:   "claim default/c request r: selector 0 is no CEL expression; " + unknownAPI,
			static: true,
		},
		"a selector of a class that is no CEL expression": {
			cluster: cluster{}.withClasses(future),
			claim:   b.Claim("c", b.Request("r", "future")),
			want:    "claim default/c request r: selector 0 of device class future is no CEL expression; " + unknownAPI,
			static:  true,
		},
		"an unknown constraint": {
			claim: b.Claim("c", b.Request("r", "gpu")).Modify(func(c *resourceapi.ResourceClaim) {
				c.Spec.Devices.Constraints = make([]resourceapi.DeviceConstraint, 1)
			}),
			want:   "claim default/c constraint 0: is neither matchAttribute nor distinctAttribute; " + unknownAPI,
			static: true,
		},
		"33 devices": {
			cluster: nodeWith(0, gpus(40)...),
			claim:   b.Claim("c", b.Request("r", "gpu").Count(33)),
			want:    "claim default/c request r: asks for 33 devices but a claim can have at most 32 and its other requests ask for 0; split the claim",
		},
		"33 devices in two requests": {
			cluster: nodeWith(0, gpus(40)...),
			claim:   b.Claim("c", b.Request("q", "gpu").Count(32), b.Request("r", "gpu")),
			want:    "claim default/c request r: asks for 1 device but a claim can have at most 32 and its other requests ask for 32; split the claim",
		},
		"35 devices in three requests": {
			cluster: nodeWith(0, gpus(40)...),
			claim:   b.Claim("c", b.Request("p", "gpu").Count(20), b.Request("q", "gpu").Count(10), b.Request("r", "gpu").Count(5)),
			want:    "claim default/c request r: asks for 5 devices but a claim can have at most 32 and its other requests ask for 30; split the claim",
		},
		"33 devices with any alternative": {
			cluster: nodeWith(0, gpus(40)...),
			claim:   b.Claim("c", b.Request("q", "gpu").Count(30), b.FirstAvailable("r", b.Request("a", "gpu").Count(4), b.Request("z", "gpu").Count(3))),
			want:    "claim default/c request r: asks for 3 devices but a claim can have at most 32 and its other requests ask for 30; split the claim",
		},
		"all of 33 devices": {
			cluster: nodeWith(0, gpus(33)...),
			claim:   b.Claim("c", b.Request("r", "gpu").All()),
			want:    "claim default/c request r: asks for 33 devices but a claim can have at most 32 and its other requests ask for 0; split the claim",
		},
		"more than can be added up": {
			cluster: nodeWith(0, gpus(1)...),
			claim:   b.Claim("c", b.Request("q", "gpu"), b.Request("r", "gpu").Count(math.MaxInt64)),
			want: fmt.Sprintf("claim default/c request r: asks for %d devices but a claim can have at most 32 and its other requests ask for 1; "+
				"split the claim", math.MaxInt64),
		},
	})
}

func TestErrorsOfFeaturesThatAreOff(t *testing.T) {
	off := func(clear func(*structured.Features)) cluster {
		return nodeWith(0, gpus(1)...).withFeatures(without(clear))
	}
	amount := &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Gi")}}
	checkErrors(t, map[string]errorCase{
		"capacity": {
			claim:  claimOf(func(r *resourceapi.ExactDeviceRequest) { r.Capacity = amount }),
			want:   "claim default/c request r: asks for capacity but the feature DRAConsumableCapacity is off",
			static: true,
		},
		"capacity of an alternative": {
			claim: b.Claim("c", b.FirstAvailable("r",
				b.Request("z", "gpu").Modify(func(r *resourceapi.ExactDeviceRequest) { r.Capacity = amount }))),
			want:   "claim default/c request r/z: asks for capacity but the feature DRAConsumableCapacity is off",
			static: true,
		},
		"derived attributes": {
			claim: claimOf(func(r *resourceapi.ExactDeviceRequest) {
				r.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "example.com/x", Expression: "1"}}
			}),
			want:   "claim default/c request r: has derived attributes but the feature DRADerivedAttributes is off",
			static: true,
		},
		"admin access": {
			cluster: off(func(f *structured.Features) { f.AdminAccess = false }),
			claim:   b.Claim("c", b.Request("r", "gpu").Admin()),
			want:    "claim default/c request r: asks for admin access but the feature DRAAdminAccess is off",
			static:  true,
		},
		"alternatives": {
			cluster: off(func(f *structured.Features) { f.PrioritizedList = false }),
			claim:   b.Claim("c", b.FirstAvailable("r", b.Request("a", "gpu"))),
			want:    "claim default/c request r: has alternatives (firstAvailable) but the feature DRAPrioritizedList is off",
			static:  true,
		},
	})
}

func TestErrorsOfNodes(t *testing.T) {
	checkErrors(t, map[string]errorCase{
		"all devices, but a pool is incomplete": {
			cluster: nodeWith(0, gpus(1)...).and(b.Slice("q").InPool("q", 1, 2).OnNode("n").Devices(gpus(1)...)),
			claim:   b.Claim("c", b.Request("r", "gpu").All()),
			want: "claim default/c request r: asks for all devices but a resource pool of driver gpu.example.com is incomplete " +
				"(1 of 2 slices of generation 1 is published)",
		},
		"all devices, but a pool is invalid": {
			cluster: nodeWith(0, gpus(1)...).and(onNode("q", b.Device("same"), b.Device("same"))),
			claim:   b.Claim("c", b.Request("r", "gpu").All()),
			want: "claim default/c request r: asks for all devices but a resource pool of driver gpu.example.com is invalid " +
				"(device name same is not unique)",
		},
	})
}

// TestSelectorErrors has selectors that cannot be evaluated. They only matter if the devices that they
// fail on could make a difference.
func TestSelectorErrors(t *testing.T) {
	const numa0 = attr + `.numa == 0`
	devices := []*b.DeviceBuilder{b.Device("gpu-0").Attr("numa", 0), b.Device("gpu-1"), b.Device("gpu-2").Attr("numa", 0)}
	ask := func(n int64, expression string) *b.ClaimBuilder {
		return b.Claim("c", b.Request("r", "gpu").Count(n).Where(expression))
	}
	t.Run("before the device is reached", func(t *testing.T) {
		require.Equal(t, []string{"r=p/gpu-0"}, chosen(nodeWith(0, devices...).mustFit(t, ask(1, numa0))[0]))
	})
	t.Run("not if an alternative that is left out may ask for less", func(t *testing.T) {
		_, err := nodeWith(0, gpus(1)...).and(onNode("q", b.Device("same"), b.Device("same"))).solve(t.Context(),
			b.Claim("c", b.FirstAvailable("r", b.Request("all", "gpu").All(), b.Request("many", "gpu").Count(33))))
		require.ErrorContains(t, err, "claim default/c request r/all: asks for all devices but a resource pool of driver gpu.example.com is invalid")
	})
	t.Run("not if others suffice", func(t *testing.T) {
		require.Equal(t, []string{"r=p/gpu-0", "r=p/gpu-2"}, chosen(nodeWith(0, devices...).mustFit(t, ask(2, numa0))[0]))
	})
	t.Run("not if another request cannot be satisfied anyhow", func(t *testing.T) {
		nodeWith(0, devices...).mustNotFit(t, b.Claim("c", b.Request("r", "gpu").Count(3).Where(numa0), b.Request("big", "gpu").Where("false")))
	})
	t.Run("when the device is missed", func(t *testing.T) {
		_, err := nodeWith(0, devices...).solve(t.Context(), ask(3, numa0))
		require.ErrorIs(t, err, selector.ErrRuntime)
		require.ErrorContains(t, err, "claim default/c request r selector 0 on device gpu.example.com/p/gpu-1 of slice p: CEL runtime error: no such key: numa. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields")
	})
	t.Run("even if there could never be enough", func(t *testing.T) {
		_, err := nodeWith(0, devices...).solve(t.Context(), ask(9, numa0))
		require.ErrorIs(t, err, selector.ErrRuntime)
	})
	t.Run("not if the device is held", func(t *testing.T) {
		c := nodeWith(0, devices...)
		c.held = []*resourceapi.ResourceClaim{heldBy("others", "p", "gpu-1")}
		require.Equal(t, []string{"r=p/gpu-0", "r=p/gpu-2"}, chosen(c.mustFit(t, ask(2, numa0))[0]))
	})
	t.Run("for all devices in any case", func(t *testing.T) {
		c := nodeWith(0, devices...)
		c.held = []*resourceapi.ResourceClaim{heldBy("others", "p", "gpu-1")}
		_, err := c.solve(t.Context(), b.Claim("c", b.Request("r", "gpu").All().Where(numa0)))
		require.ErrorIs(t, err, selector.ErrRuntime)
	})
	t.Run("in a class", func(t *testing.T) {
		c := nodeWith(0, devices...).withClasses(b.Class("broken", `device.driver ==`))
		_, err := c.solve(t.Context(), b.Claim("c", b.Request("r", "broken")))
		require.ErrorIs(t, err, selector.ErrCompile)
		require.ErrorContains(t, err, "selector 0 of device class broken does not compile: 1:17: ")
	})
	t.Run("not for other claims", func(t *testing.T) {
		c := nodeWith(0, devices...).withClasses(b.Class("broken", `device.driver ==`))
		require.Equal(t, []string{"gpu=p/gpu-0"}, chosen(c.mustFit(t, wants(1))[0]))
	})
	t.Run("is an error of the selector package", func(t *testing.T) {
		_, err := nodeWith(0, devices...).solve(t.Context(), ask(3, numa0))
		var failure *selector.Error
		require.True(t, errors.As(err, &failure))
		require.Equal(t, "gpu.example.com/p/gpu-1", failure.Device)
	})
}
