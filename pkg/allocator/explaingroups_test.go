package allocator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// twoSets is a cluster with two devices of 40Gi in each of two counter sets of 60Gi. The first held devices are held.
func twoSets(held int) cluster {
	devices := gpus(4)
	for i, device := range devices {
		device.Consumes([]string{"one", "two"}[i%2], "memory", "40Gi", "engines", "1")
	}
	c := nodeWith(held)
	c.slices = []*b.SliceBuilder{
		b.Slice("p-counters").InPool("p", 1, 2).OnNode("n").Counters("one", "memory", "60Gi", "engines", "4").Counters("two", "memory", "60Gi", "engines", "4"),
		b.Slice("p-devices").InPool("p", 1, 2).OnNode("n").Devices(devices...),
	}
	return c
}

// TestExplanationSaysTheSameOnce uses claims, requests, constraints and counter sets that differ only in their names.
func TestExplanationSaysTheSameOnce(t *testing.T) {
	t.Parallel()
	differently := twoSets(0)
	differently.held = append(differently.held, heldBy("a", "p", "gpu-0"), heldBy("b", "p", "gpu-1"))
	numa := numbered(gpus(4), "numa", 0, 1)
	for name, tc := range map[string]struct {
		cluster cluster
		claims  []*b.ClaimBuilder
		want    []string // after the line with the reason
	}{
		"claims": {
			cluster: nodeWith(1, gpus(5)...),
			claims: []*b.ClaimBuilder{wants(1), b.Claim("b", b.Request("gpu", "gpu")), b.Claim("c", b.Request("other", "gpu")),
				b.Claim("d", b.Request("gpu", "gpu")), b.Claim("e", b.Request("gpu", "gpu"))},
			want: []string{
				"  claims train/gpus and default/b and default/d and default/e, each",
				"    request gpu: 1 device of class gpu",
				"      5 devices published for the node, 5 of the class, 5 matching, 4 available",
				"      1 held by another claim: default/others (1)",
				"  claim default/c",
				"    request other: 1 device of class gpu",
				"      5 devices published for the node, 5 of the class, 5 matching, 4 available",
				"      1 held by another claim: default/others (1)",
				"  each request alone has enough available devices; together they want 5; 5 match; 4 available",
			},
		},
		"requests and constraints": {
			cluster: nodeWith(0, numa...),
			claims: []*b.ClaimBuilder{b.Claim("gpus", b.Request("a", "gpu").Count(2), b.Request("b", "gpu").Count(2), b.Request("c", "gpu")).
				Match("gpu.example.com/numa", "a").Match("gpu.example.com/numa", "b").Distinct("gpu.example.com/numa", "c")},
			want: []string{
				"  claim default/gpus",
				"    requests a and b, each: 2 devices of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 4 available",
				"    request c: 1 device of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 4 available",
				"    matchAttribute gpu.example.com/numa of request a: 2 devices wanted, at best 2 available with value 0; the same for 1 more constraint",
				"    distinctAttribute gpu.example.com/numa of request c: 1 device wanted, at best 2 available with different values",
				"  each request alone has enough available devices; together they want 5; 4 match; 4 available",
			},
		},
		"counter sets in use by the same claim": {
			cluster: twoSets(2), claims: []*b.ClaimBuilder{wants(1)},
			want: []string{
				"  claim train/gpus",
				"    request gpu: 1 device of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 0 available: 1 too few",
				"      2 held by other claims: default/others (2)",
				"      2 draw on counters that have too little left",
				"        one and two: memory (40Gi needed, 20Gi left); in use by default/others (gpu-0 and gpu-1)",
			},
		},
		"counter sets in use by different claims": {
			cluster: differently, claims: []*b.ClaimBuilder{wants(1)},
			want: []string{
				"  claim train/gpus",
				"    request gpu: 1 device of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 0 available: 1 too few",
				"      2 held by other claims: default/a (1), default/b (1)",
				"      2 draw on counters that have too little left",
				"        one: memory (40Gi needed, 20Gi left); in use by default/a (gpu-0)",
				"        two: memory (40Gi needed, 20Gi left); in use by default/b (gpu-1)",
			},
		},
		"counter sets that do not suffice for all": {
			cluster: twoSets(0), claims: []*b.ClaimBuilder{wants(3)},
			want: []string{
				"  claim train/gpus",
				"    request gpu: 3 devices of class gpu",
				"      4 devices published for the node, 4 of the class, 4 matching, 4 available",
				"      not all of those available together: one and two: memory (2 draw 80Gi, 60Gi left)",
				"  each request alone has enough available devices; with 2 devices of its own allocated request gpu is short of memory (40Gi asked and at most 20Gi left)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explanation := tc.cluster.mustNotFit(t, tc.claims...).Explain()
			require.Equal(t, tc.want, strings.Split(explanation.String(), "\n")[1:])
		})
	}
}

// TestCounterSetsAreForPrograms reads who draws on a counter set from the fields.
func TestCounterSetsAreForPrograms(t *testing.T) {
	t.Parallel()
	c := twoSets(0)
	c.held = []*resourceapi.ResourceClaim{heldBy("b", "p", "gpu-2"), heldBy("a", "p", "gpu-1")}
	sets := c.mustNotFit(t, wants(1)).Explain().Claims[0].Requests[0].Obstacles[1].CounterSets
	require.Len(t, sets, 2)
	require.Equal(t, []string{"gpu.example.com/p", "one", "default/b"}, []string{sets[0].Pool, sets[0].Set, sets[0].Claims[0].Claim.String()})
	require.Equal(t, []string{"gpu-2"}, sets[0].Claims[0].Devices)
	require.Equal(t, []string{"two", "default/a"}, []string{sets[1].Set, sets[1].Claims[0].Claim.String()})
	require.Len(t, sets[1].Counters, 1)
	require.Equal(t, []string{"memory", "40Gi", "20Gi"},
		[]string{sets[1].Counters[0].Name, sets[1].Counters[0].Needed.String(), sets[1].Counters[0].Left.String()})
}
