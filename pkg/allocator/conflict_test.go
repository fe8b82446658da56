package allocator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestReasonOfConflict has requests that could each be satisfied alone.
func TestReasonOfConflict(t *testing.T) {
	one := func(name string, n int64) *b.ClaimBuilder { return b.Claim(name, b.Request("gpu", "gpu").Count(n)) }
	twoNUMANodes := nodeWith(0, numbered(gpus(4), "numa", 0, 1)...)
	checkReasons(t, map[string]reasonCase{
		"matchAttribute": {
			cluster: twoNUMANodes,
			claims:  []*b.ClaimBuilder{wants(3).Match("gpu.example.com/numa")},
			want:    "claim train/gpus request gpu: 3 devices asked that agree on gpu.example.com/numa (matchAttribute); at most 2 could be had",
		},
		"distinctAttribute": {
			cluster: twoNUMANodes,
			claims:  []*b.ClaimBuilder{wants(3).Distinct("gpu.example.com/numa")},
			want:    "claim train/gpus request gpu: 3 devices asked that all differ in gpu.example.com/numa (distinctAttribute); at most 2 could be had",
		},
		"matchAttribute, devices held": {
			cluster: nodeWith(2, numbered(gpus(6), "numa", 0, 1)...),
			claims:  []*b.ClaimBuilder{wants(3).Match("gpu.example.com/numa")},
			want:    "claim train/gpus request gpu: 3 devices asked that agree on gpu.example.com/numa (matchAttribute); at most 2 free",
		},
		"matchAttribute with a list": {
			cluster: nodeWith(0, gpus(3)[0].Attr("root", ints(0, 1)), gpus(3)[1].Attr("root", ints(1, 2)), gpus(3)[2].Attr("root", ints(2))),
			claims:  []*b.ClaimBuilder{wants(3).Match("gpu.example.com/root")},
			want:    "claim train/gpus request gpu: 3 devices asked that agree on gpu.example.com/root (matchAttribute); at most 2 could be had",
		},
		"matchAttribute over requests that have nothing in common": {
			cluster: nodeWith(0, numbered(gpus(2), "numa", 0, 1)...),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.Request("zero", "gpu").Where(attr+".numa == 0"), b.Request("one", "gpu").Where(attr+".numa == 1")).
				Match("gpu.example.com/numa")},
			want: "claim default/gpus requests zero and one: 2 devices asked that agree on gpu.example.com/numa (matchAttribute); no value has enough devices for each of them",
		},
		"requests of a class among others": {
			cluster: nodeWith(1, b.Device("gpu-0").Attr("model", "big"), b.Device("gpu-1").Attr("model", "big"), b.Device("gpu-2"), b.Device("gpu-3")).
				withClasses(b.Class("big", isBig)),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "big"), b.Request("any", "gpu"), b.Request("two", "big"))},
			want:   "claim default/gpus requests one and two want 2 devices of class big together; 2 match; 1 free; the rest held by other claims",
		},
		"both": {
			cluster: twoNUMANodes,
			claims:  []*b.ClaimBuilder{wants(2).Match("gpu.example.com/numa").Distinct("gpu.example.com/numa")},
			want:    "claim train/gpus: there are enough free devices but none that together satisfy matchAttribute gpu.example.com/numa and distinctAttribute gpu.example.com/numa",
		},
		"no device has the attribute": {
			cluster: nodeWith(0, gpus(1)...),
			claims:  []*b.ClaimBuilder{wants(1).Match("gpu.example.com/numa")},
			want:    "claim train/gpus request gpu: 1 device matches: 1 asked; 0 free; 1 lacks an attribute that a constraint needs (gpu.example.com/numa)",
		},
		"a constraint of the second claim": {
			cluster: twoNUMANodes,
			claims:  []*b.ClaimBuilder{one("first", 1), wants(3).Match("gpu.example.com/numa")},
			want:    "claim train/gpus request gpu: 3 devices asked that agree on gpu.example.com/numa (matchAttribute); at most 2 could be had",
		},
		"two claims": {
			cluster: nodeWith(0, gpus(3)...),
			claims:  []*b.ClaimBuilder{one("first", 2), one("second", 2)},
			want:    "claims default/first and default/second want 4 devices of class gpu together; 3 match",
		},
		"the second of three claims": {
			cluster: nodeWith(0, gpus(3)...),
			claims:  []*b.ClaimBuilder{one("first", 2), one("second", 2), one("third", 1)},
			want:    "claims default/first and default/second and default/third want 5 devices of class gpu together; 3 match",
		},
		"requests of a claim": {
			cluster: nodeWith(0, gpus(3)...),
			claims:  []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "gpu").Count(2), b.Request("two", "gpu").Count(2))},
			want:    "claim default/gpus requests one and two want 4 devices of class gpu together; 3 match",
		},
		"requests of a claim, also without its constraint": {
			cluster: twoNUMANodes,
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "gpu").Count(2), b.Request("two", "gpu").Count(3)).
				Match("gpu.example.com/numa", "one")},
			want: "claim default/gpus requests one and two want 5 devices of class gpu together; 4 match",
		},
		"more devices than a claim can have, with one alternative": {
			cluster: nodeWith(0, gpus(40)...).withClasses(b.Class("big", isBig)),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "gpu").Count(30),
				b.FirstAvailable("two", b.Request("many", "gpu").Count(3), b.Request("large", "big")))},
			want: "claim default/gpus: there are devices for each of its requests alone but not for all of them together",
		},
	})
}

func ints(values ...int64) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValues: values}
}

// TestReasonBlamesNobodyOnSuspicion uses claims for which finding the claim to blame would take too long.
func TestReasonBlamesNobodyOnSuspicion(t *testing.T) {
	c, claim := hard()
	outcome, err := c.solve(t.Context(), claim)
	require.NoError(t, err)
	require.True(t, outcome.Fits())
	require.Greater(t, outcome.Steps, 2000, "the claim must be harder than what is spent on a reason")

	outcome = c.mustNotFit(t, claim, b.Claim("more", b.Request("gpu", "gpu").Count(6)))
	require.Equal(t, "claims default/hard and default/more: no combination of devices satisfies all requests and constraints",
		outcome.Reason())
}

// TestReasonBlamesNoConstraintOnSuspicion uses a claim that is impossible with its constraint. Finding out
// whether it is possible without would take too long.
func TestReasonBlamesNoConstraintOnSuspicion(t *testing.T) {
	c, claim := hard()
	// At least seven devices have the same parity and as many are in the same half, but
	// no six both.
	for _, slice := range c.slices {
		slice.Modify(func(slice *resourceapi.ResourceSlice) {
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].Attributes["parity"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(i % 2))}
				slice.Spec.Devices[i].Attributes["half"] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(i / 8))}
			}
		})
	}
	outcome := c.mustNotFit(t, claim.Match("gpu.example.com/parity").Match("gpu.example.com/half"))
	require.Less(t, outcome.Steps, 2000, "that it is impossible must be found out in time")
	require.Equal(t, "claim default/hard: no combination of devices satisfies all requests and constraints", outcome.Reason())
}

// TestReasonOutlivesTheContext asks for the reason when the context of the search
// has ended.
func TestReasonOutlivesTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	outcome, err := nodeWith(0, gpus(3)...).solve(ctx, wants(2), b.Claim("more", b.Request("gpu", "gpu").Count(2)))
	require.NoError(t, err)
	require.False(t, outcome.Fits())
	cancel()
	require.Equal(t, "claims train/gpus and default/more want 4 devices of class gpu together; 3 match",
		outcome.Reason())
}

func TestReasonOfGivingUp(t *testing.T) {
	const advice = ": gave up looking for devices after 3 steps; there may be a solution (fewer requests or constraints in a claim make it easier to find)"
	c := nodeWith(0, gpus(8)...)
	c.budget = 3
	checkReasons(t, map[string]reasonCase{
		"one claim": {
			cluster: c, claims: []*b.ClaimBuilder{wants(4)},
			want: "claim train/gpus" + advice,
		},
		"two claims": {
			cluster: c, claims: []*b.ClaimBuilder{wants(3), b.Claim("more", b.Request("gpu", "gpu"))},
			want: "claims train/gpus and default/more" + advice,
		},
	})
}
