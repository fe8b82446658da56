package allocator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestExplanationInFull compares whole texts.
func TestExplanationInFull(t *testing.T) {
	t.Parallel()
	mixed := nodeWith(0, tainted(1, numbered(gpus(8), "numa", 0, 1))...)
	mixed.held = append(mixed.held, heldBy("a", "p", "gpu-1", "gpu-2"), heldBy("b", "p", "gpu-3"))
	mixed = mixed.and(b.Slice("u").InPool("u", 1, 2).OnNode("n").Devices(gpus(2)...), onNode("v", b.Device("x"), b.Device("x")))
	few := nodeWith(0, gpus(8)...)
	few.budget = 3
	failing := nodeWith(0, b.Device("old"), b.Device("new").Attr("model", "big")).withClasses(b.Class("big", isBig))
	for name, tc := range map[string]struct {
		cluster cluster
		claims  []*b.ClaimBuilder
		want    []string
	}{
		"a constraint, and pools that are left out": {
			cluster: mixed, claims: []*b.ClaimBuilder{wants(3).Match("gpu.example.com/numa")},
			want: []string{
				"node n: claim train/gpus request gpu: 3 devices asked that agree on gpu.example.com/numa (matchAttribute); at most 2 free; resource pool gpu.example.com/u is left out because its driver is updating it; resource pool gpu.example.com/v is left out as invalid (device name x is not unique)",
				"  claim train/gpus",
				"    request gpu: 3 devices of class gpu",
				"      8 devices published for the node, 8 of the class, 8 matching, 4 available",
				"      1 has a taint that is not tolerated: broken:NoSchedule",
				"      3 held by other claims: default/a (2), default/b (1)",
				"    matchAttribute gpu.example.com/numa of request gpu: 3 devices wanted, at best 2 available with value 0, 4 if other claims had none",
				"  pool gpu.example.com/u is left out, it is incomplete: 1 of 2 slices of generation 1 is published",
				"  pool gpu.example.com/v is left out, it is invalid: device name x is not unique",
				"  each request alone has enough available devices; together 3 are wanted that agree on gpu.example.com/numa and at best 2 do",
			},
		},
		"counters that devices share": {
			cluster: partitions(1, 4), claims: []*b.ClaimBuilder{wants(2)},
			want: []string{
				"node n: claim train/gpus request gpu: enough devices match and are free but too little is left of the counters that they share (memory)",
				"  claim train/gpus",
				"    request gpu: 2 devices of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 3 available",
				"      1 held by another claim: default/others (1)",
				"      not all of those available together: device: memory (3 draw 120Gi, 40Gi left)",
				"  each request alone has enough available devices; with 1 device of its own allocated request gpu is short of memory (40Gi asked and at most 0 left)",
			},
		},
		"counters that claims share": {
			cluster: partitions(0, 4), claims: []*b.ClaimBuilder{wants(1), b.Claim("more", b.Request("one", "gpu"), b.Request("two", "gpu"))},
			want: []string{
				"node n: claims train/gpus and default/more: there are devices for each of them alone but the counters that they share do not suffice for all (memory)",
				"  claim train/gpus",
				"    request gpu: 1 device of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 4 available",
				"      not all of those available together: device: memory (4 draw 160Gi, 80Gi left)",
				"  claim default/more",
				"    requests one and two, each: 1 device of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 4 available",
				"      not all of those available together: device: memory (4 draw 160Gi, 80Gi left)",
				"  each request alone has enough available devices; with claim train/gpus and request one allocated request two is short of memory (40Gi asked and at most 0 left)",
			},
		},
		"alternatives, all devices, admin access, a selector that fails": {
			cluster: failing,
			claims: []*b.ClaimBuilder{
				b.Claim("one", b.FirstAvailable("gpu", b.Request("many", "gpu").Count(3), b.Request("large", "big").Count(2))),
				b.Claim("two", b.Request("all", "big").All(), b.Request("look", "gpu").Admin(), b.Request("picky", "gpu").Where(isNumaOf)),
			},
			want: []string{
				"node n: claim default/one request gpu: no alternative fits [many: 2 devices match: 3 asked] [large: 1 device matches: 2 asked]",
				"  claim default/one",
				"    request gpu/many: 3 devices of class gpu",
				"      2 devices published for the node, 2 of the class, 2 matching, 2 available: 1 too few",
				"    request gpu/large: 2 devices of class big",
				"      2 devices published for the node, 1 of the class, 1 matching, 1 available: 1 too few",
				"  claim default/two",
				"    request all: all devices (1) of class big",
				"      2 devices published for the node, 1 of the class, 1 matching, 1 available",
				"    request look: 1 device of class gpu with admin access",
				"      2 devices published for the node, 2 of the class, 2 matching, 2 available",
				"    request picky: 1 device of class gpu",
				"      2 devices published for the node, 2 of the class, 0 matching, 0 available: 1 too few",
				"      2 devices on which a selector fails: claim default/two request picky selector 0: CEL runtime error: no such key: numa. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
				"        device gpu.example.com/p/old of slice p and 1 more",
			},
		},
		"the budget": {
			cluster: few, claims: []*b.ClaimBuilder{wants(4)},
			want: []string{
				"node n: claim train/gpus: gave up looking for devices after 3 steps; there may be a solution (fewer requests or constraints in a claim make it easier to find)",
				"  claim train/gpus",
				"    request gpu: 4 devices of class gpu",
				"      8 devices published for the node, 8 of the class, 8 matching, 8 available",
				"  3 devices were tried, then the budget was used up",
			},
		},
		"two constraints": {
			cluster: nodeWith(0, numbered(gpus(4), "numa", 0, 1)...),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.Request("one", "gpu"), b.Request("two", "gpu")).
				Match("gpu.example.com/numa").Distinct("gpu.example.com/numa")},
			want: []string{
				"node n: claim default/gpus: there are enough free devices but none that together satisfy matchAttribute gpu.example.com/numa and distinctAttribute gpu.example.com/numa",
				"  claim default/gpus",
				"    requests one and two, each: 1 device of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 4 available",
				"    matchAttribute gpu.example.com/numa of requests one and two: 2 devices wanted, at best 2 available with value 0",
				"    distinctAttribute gpu.example.com/numa of requests one and two: 2 devices wanted, at best 2 available with different values",
				"  each request alone has enough available devices; without constraints they could be had together",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explanation := tc.cluster.mustNotFit(t, tc.claims...).Explain()
			require.Equal(t, tc.want, strings.Split(explanation.String(), "\n"))
		})
	}
}

// TestExplanationIsForPrograms reads numbers from the fields and not from the text.
func TestExplanationIsForPrograms(t *testing.T) {
	t.Parallel()
	c := partitions(1, 3)
	c.held = append(c.held, heldBy("more", "p", "gpu-1"))
	explanation := c.mustNotFit(t, wants(1)).Explain()
	request := explanation.Claims[0].Requests[0]
	require.Equal(t, "train/gpus", explanation.Claims[0].Claim)
	require.Equal(t, 3, request.Matching)
	require.Len(t, request.Obstacles, 2)
	held, short := request.Obstacles[0], request.Obstacles[1]
	require.Equal(t, []allocator.Holder{
		{Claim: ledger.ClaimRef{Namespace: "default", Name: "more", UID: "uid-more"}, Devices: 1},
		{Claim: ledger.ClaimRef{Namespace: "default", Name: "others", UID: "uid-others"}, Devices: 1},
	}, held.Claims)
	require.Equal(t, held.Claims, short.Claims, "the same claims draw on the counter")
	shortfall := short.Details[0].Shortfall
	require.Equal(t, "gpu.example.com/p/gpu-2", shortfall.Device)
	require.Equal(t, []string{"40Gi", "0", "40Gi"}, []string{shortfall.Needed.String(), shortfall.Left.String(), shortfall.By.String()})
}

// TestExplanationWithoutNames has a view that does not know who holds a device.
func TestExplanationWithoutNames(t *testing.T) {
	t.Parallel()
	c := nodeWith(0, gpus(2)...)
	site := c.site()
	holder := ledger.DeviceUsage{Holders: []ledger.ClaimRef{{}}}
	site.Usage = ledger.Fixed{site.Pools[0].ID: ledger.NewPoolUsage(map[string]ledger.DeviceUsage{"gpu-0": holder, "gpu-1": holder})}
	outcome, err := c.solver().Prepare(objects([]*b.ClaimBuilder{wants(1)})).Solve(t.Context(), site)
	require.NoError(t, err)
	require.Contains(t, strings.Split(outcome.Explain().String(), "\n"), "      2 held by other claims")
}

// TestNoReasonWithSolution: there is no reason if there is a solution.
func TestNoReasonWithSolution(t *testing.T) {
	t.Parallel()
	outcome, err := nodeWith(0, gpus(1)...).solve(t.Context(), wants(1))
	require.NoError(t, err)
	require.True(t, outcome.Fits())
	require.Empty(t, outcome.Reason())
	require.Nil(t, outcome.Explain())
	require.Empty(t, outcome.Explain().String())
}
