package negotiation

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
)

var ofController = conversion.AlphaClaim{Allocator: conversion.ByController, Classes: []string{"gpu"}}

// attempt is one of pod "me", which refers to the claims by their names.
func attempt(t *testing.T, context *api.PodSchedulingContext, claims ...*resourceapi.ResourceClaim) *Attempt {
	t.Helper()
	a := &Attempt{Pod: "uid-pod-me", Context: context}
	for _, object := range claims {
		c, err := NewClaim(a.Pod, object.Name, object, twoClasses)
		require.NoError(t, err)
		a.Claims = append(a.Claims, c)
	}
	return a
}

func TestCheck(t *testing.T) {
	t.Parallel()
	inA := ofController
	inA.Classes = []string{"gpu", "gpu-in-a"}
	immediate := ofController
	immediate.Immediate = true
	for name, test := range map[string]struct {
		context  *api.PodSchedulingContext
		claims   []*resourceapi.ResourceClaim
		a, b     string // reasons on node a and b
		freeable string
	}{
		"nothing is known":      {claims: []*resourceapi.ResourceClaim{claim("c", with(ofController))}},
		"class limits nodes":    {claims: []*resourceapi.ResourceClaim{claim("c", with(inA))}, b: "class gpu-in-a is not for this node"},
		"class, once allocated": {claims: []*resourceapi.ResourceClaim{claim("c", with(inA), allocatedIn(""))}},
		"driver says no": {
			context: said(api.PodSchedulingContextSpec{}, not("other", "b"), not("c", "a")),
			claims:  []*resourceapi.ResourceClaim{claim("c", with(ofController))}, a: "claim default/c cannot be allocated for this node",
		},
		"driver said no, but has allocated": {
			context: said(api.PodSchedulingContextSpec{}, not("c", "a")),
			claims:  []*resourceapi.ResourceClaim{claim("c", with(ofController), allocatedIn("a"))}, b: "claim default/c is allocated on other nodes", freeable: "c",
		},
		"in use by others": {
			claims: []*resourceapi.ResourceClaim{claim("c", with(ofController), allocatedIn("a"), usedBy("me", "other"))}, b: "claim default/c is allocated on other nodes",
		},
		"immediate": {claims: []*resourceapi.ResourceClaim{claim("c", with(immediate), allocatedIn("a"))}, b: "allocated on other nodes"},
		"the second can go": {
			claims: []*resourceapi.ResourceClaim{
				claim("first", with(ofController), allocatedIn("a"), usedBy("other")),
				claim("second", with(ofController), allocatedIn("b"), usedBy("me")),
			},
			a: "claim default/second is allocated on other nodes", b: "claim default/first is allocated on other nodes", freeable: "second",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := attempt(t, test.context, test.claims...)
			for zone, want := range map[string]string{"a": test.a, "b": test.b} {
				err := a.Check(node(zone, zone))
				if want == "" {
					require.NoError(t, err, zone)
				} else {
					require.ErrorContains(t, err, want, zone)
				}
			}
			freeable := ""
			if c := a.Freeable(func(*Claim) bool { return false }); c != nil {
				freeable = c.Object.Name
				require.Nil(t, a.Freeable(func(claim *Claim) bool { return claim == c }))
			}
			require.Equal(t, test.freeable, freeable)
		})
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	type spec = api.PodSchedulingContextSpec
	one := []*resourceapi.ResourceClaim{claim("c", with(ofController))}
	two := []*resourceapi.ResourceClaim{claim("c", with(ofController)), claim("d", with(ofController))}
	for name, test := range map[string]struct {
		claims     []*resourceapi.ResourceClaim
		context    *api.PodSchedulingContext
		structured bool
		feasible   []string // nil: only the node was
		node       string
		want       spec
		proceed    bool
	}{
		"one claim, nothing known":     {claims: one, feasible: []string{"b", "a"}, node: "b", want: spec{SelectedNode: "b", PotentialNodes: []string{"a", "b"}}},
		"one claim, one node":          {claims: one, node: "b", want: spec{SelectedNode: "b", PotentialNodes: []string{"b"}}},
		"a structured claim as well":   {claims: one, structured: true, feasible: []string{"a", "b"}, node: "b", want: spec{PotentialNodes: []string{"a", "b"}}},
		"structured, and all informed": {claims: one, structured: true, context: said(spec{PotentialNodes: []string{"a"}}, not("c")), node: "a", want: spec{SelectedNode: "a", PotentialNodes: []string{"a"}}},
		"two claims, nothing known":    {claims: two, feasible: []string{"a", "b"}, node: "b", want: spec{PotentialNodes: []string{"a", "b"}}},
		"two claims, one driver has spoken": {
			claims: two, context: said(spec{PotentialNodes: []string{"a", "b"}}, not("c")), feasible: []string{"b"}, node: "b",
			want: spec{PotentialNodes: []string{"a", "b"}},
		},
		"two claims, both have": {
			claims: two, context: said(spec{PotentialNodes: []string{"a", "b"}}, not("d", "a"), not("c")), feasible: []string{"b"}, node: "b",
			want: spec{SelectedNode: "b", PotentialNodes: []string{"a", "b"}},
		},
		"two claims, one allocated": {
			claims: []*resourceapi.ResourceClaim{claim("c", with(ofController), allocatedIn("")), claim("d", with(ofController))},
			node:   "b", want: spec{SelectedNode: "b", PotentialNodes: []string{"b"}},
		},
		"the selected node stays": {
			claims: one, context: said(spec{SelectedNode: "a", PotentialNodes: []string{"a", "b"}}), feasible: []string{"a", "b"}, node: "b",
			want: spec{SelectedNode: "a", PotentialNodes: []string{"a", "b"}},
		},
		"the selected node will not do any more": {
			claims: one, context: said(spec{SelectedNode: "a", PotentialNodes: []string{"a", "b"}}, not("c", "a")), feasible: []string{"b", "c"}, node: "b",
			want: spec{SelectedNode: "b", PotentialNodes: []string{"a", "b", "c"}},
		},
		"nor is there another one yet": {
			claims: two, context: said(spec{SelectedNode: "a", PotentialNodes: []string{"a"}}, not("c", "a")), node: "b",
			want: spec{PotentialNodes: []string{"a", "b"}},
		},
		"all allocated": {claims: []*resourceapi.ResourceClaim{claim("c", with(ofController), allocatedIn("a"))}, structured: true, node: "a", proceed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := attempt(t, test.context, test.claims...)
			a.Structured = test.structured
			if test.feasible != nil {
				a.SetFeasible(test.feasible)
			}
			before := a.Context
			if before != nil {
				before = before.DeepCopy()
			}
			got, proceed := a.Select(test.node)
			require.Empty(t, cmp.Diff(test.want, got))
			require.Equal(t, test.proceed, proceed)
			require.Empty(t, cmp.Diff(before, a.Context), "read-only")
		})
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	named := ofController
	named.Controller = "d.example.com"
	selected := api.PodSchedulingContextSpec{SelectedNode: "a"}
	one := attempt(t, nil, claim("c", with(named)), claim("done", with(named), allocatedIn("a")))
	require.Equal(t, "waiting for the driver of claim default/c (d.example.com) to allocate it for the selected node a", one.Waiting(selected))
	two := attempt(t, nil, claim("c", with(ofController)), claim("d", with(named)))
	require.Equal(t, "waiting for the drivers of claims default/c and default/d (d.example.com) to allocate them for the selected node a", two.Waiting(selected))
	require.Equal(t, "waiting for the drivers of claims default/c and default/d (d.example.com) to say which nodes are suitable", two.Waiting(api.PodSchedulingContextSpec{}))
}

// In a large cluster not all nodes can be asked about, and not always the same.
func TestPotentialNodesOfLargeClusters(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf("node-%03d", i))
	}
	before := slices.Clone(all)
	first := potentialNodes(nil, all, "node-500")
	require.Len(t, first, api.PotentialNodesMaxSize)
	require.Contains(t, first, "node-500")
	require.True(t, slices.IsSorted(first))
	require.Len(t, slices.Compact(slices.Clone(first)), len(first))
	require.Equal(t, before, all)
	// While one of them is suitable, the negotiation does not start over.
	require.Equal(t, first, potentialNodes(first, []string{"node-500", "elsewhere"}, "elsewhere"))
	require.Equal(t, first[:100], potentialNodes(first[:100], append(slices.Clone(first[:1]), all[:200]...), all[0]))
	// What fits is asked as well: answers about what has been asked are remembered.
	require.Equal(t, []string{"a", "b", "c"}, potentialNodes([]string{"b"}, []string{"c", "a"}, "a"))
	// Otherwise others get their turn.
	rest := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(first, name) })
	second := potentialNodes(first, rest, rest[0])
	require.Len(t, second, api.PotentialNodesMaxSize)
	for _, name := range second {
		require.NotContains(t, first, name)
	}
	// The choice is not the same each time: two of them agree with a probability of 1e-150.
	require.NotEqual(t, first, potentialNodes(nil, all, "node-500"))
}

// Among the nodes asked about, those that no controller has refused have precedence.
func TestSelectInLargeClusters(t *testing.T) {
	t.Parallel()
	var asked, refused []string
	for i := range api.PotentialNodesMaxSize {
		asked = append(asked, fmt.Sprintf("node-%03d", i))
	}
	refused = slices.Delete(slices.Clone(asked), 70, 72)
	context := said(api.PodSchedulingContextSpec{SelectedNode: "node-007", PotentialNodes: asked}, not("c", refused...))
	chosen := func(node string) string {
		a := attempt(t, context, claim("c", with(ofController)))
		a.SetFeasible([]string{"elsewhere", "node-070", "node-071", "other"})
		got, _ := a.Select(node)
		require.Equal(t, asked, got.PotentialNodes)
		return got.SelectedNode
	}
	require.Equal(t, "node-071", chosen("node-071"))
	require.Contains(t, []string{"node-070", "node-071"}, chosen("elsewhere"))
}

func TestProgress(t *testing.T) {
	t.Parallel()
	type spec = api.PodSchedulingContextSpec
	for name, test := range map[string]struct {
		before, after *api.PodSchedulingContext
		pending       []string
		helps, atOnce bool
	}{
		"created by us":              {after: said(spec{}), pending: []string{"c"}},
		"found at the start":         {after: said(spec{}, not("c")), pending: []string{"c"}, helps: true, atOnce: true},
		"first of two":               {before: said(spec{}), after: said(spec{}, not("c", "a")), pending: []string{"c", "d"}},
		"second of two":              {before: said(spec{}, not("c")), after: said(spec{}, not("c"), not("d")), pending: []string{"c", "d"}, helps: true, atOnce: true},
		"only our part":              {before: said(spec{}, not("c")), after: said(spec{SelectedNode: "a"}, not("c")), pending: []string{"c"}},
		"other nodes":                {before: said(spec{}, not("c", "a")), after: said(spec{}, not("c", "b")), pending: []string{"c"}, helps: true},
		"the selected node is bad":   {before: said(spec{SelectedNode: "b"}, not("c", "a")), after: said(spec{SelectedNode: "b"}, not("c", "b")), pending: []string{"c"}, helps: true, atOnce: true},
		"all claims are allocated":   {before: said(spec{}), after: said(spec{}, not("c")), pending: nil},
		"about an allocated claim":   {before: said(spec{}), after: said(spec{}, not("c")), pending: []string{"d"}},
		"nothing but metadata":       {before: said(spec{}, not("c")), after: said(spec{}, not("c")), pending: []string{"c"}},
		"one entry replaces another": {before: said(spec{}, not("c")), after: said(spec{}, not("d")), pending: []string{"d"}, helps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			helps, atOnce := Progress(test.before, test.after, test.pending)
			require.Equal(t, []bool{test.helps, test.atOnce}, []bool{helps, atOnce})
		})
	}
}
