package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// graph is a system of few states, with numbers, of which those in good are settled.
type graph struct {
	edges []edge
	good  map[version]bool
}

// edge is a step from a state to another one.
type edge struct {
	from, to version
	by       label
}

func (g graph) initial() state               { return state{now: 1} }
func (g graph) broken(*state) string         { return "" }
func (g graph) done(*state) bool             { return true }
func (g graph) rests(s *state) bool          { return g.good[s.now] }
func (g graph) describe(label, state) string { return "step" }
func (g graph) steps(from *state, e emitter) {
	for _, edge := range g.edges {
		if edge.from == from.now {
			e(edge.by, &state{now: edge.to}, "")
		}
	}
}

// TestStarvation: who may wait for ever is found, unless that takes that somebody is passed over for ever who could always
// take a step.
func TestStarvation(t *testing.T) {
	t.Parallel()
	p, q := label{action: doPlan}, label{action: doPlan, who: 1}
	see, fault := label{action: doSee}, label{action: doCrash}
	tests := map[string]struct {
		edges []edge
		// starves: only faults lead to rest from some state. circles: others may go on without an end.
		starves, circles bool
	}{
		"settled at last":                            {edges: []edge{{1, 9, p}}},
		"an end that is not settled":                 {edges: []edge{{1, 2, p}}, starves: true},
		"one of two ends is not settled":             {edges: []edge{{1, 9, p}, {1, 2, q}}, starves: true},
		"only a fault leads out":                     {edges: []edge{{1, 9, fault}}, starves: true},
		"a fault leads to where nothing goes on":     {edges: []edge{{1, 9, p}, {1, 2, fault}}, starves: true},
		"round and round":                            {edges: []edge{{1, 2, p}, {2, 1, p}}, starves: true},
		"round and round, the way out is a fault":    {edges: []edge{{1, 2, p}, {2, 1, p}, {1, 9, fault}}, starves: true},
		"two go round together":                      {edges: []edge{{1, 2, p}, {2, 1, q}}, starves: true},
		"round, but another can always end it":       {edges: []edge{{1, 2, p}, {2, 1, p}, {1, 9, see}, {2, 9, see}}},
		"round, and another can end it now and then": {edges: []edge{{1, 2, p}, {2, 1, p}, {1, 9, see}}, circles: true},
		"round, and the same one could end it":       {edges: []edge{{1, 2, p}, {2, 1, p}, {1, 9, p}}, circles: true},
		"a step that changes nothing":                {edges: []edge{{1, 1, p}}, starves: true},
		"such a step beside one that does":           {edges: []edge{{1, 1, p}, {1, 9, see}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := explore(graph{edges: test.edges, good: map[version]bool{9: true}}, 100)
			require.NoError(t, err)
			require.Equal(t, test.starves, r.starvation != nil, "%v", r.starvation)
			require.Equal(t, test.starves || test.circles, r.circle != nil, "%v", r.circle)
		})
	}
}
