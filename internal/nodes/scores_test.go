package nodes_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	nodescore "github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// costs are nodes of the same merit that cost so much.
func costs(costs ...float64) []nodescore.Node {
	nodes := make([]nodescore.Node, len(costs))
	for i, cost := range costs {
		nodes[i].Value.Cost = cost
	}
	return nodes
}

func TestScores(t *testing.T) {
	t.Parallel()
	apart := allocator.Value{Apart: 1}
	tests := map[string]struct {
		nodes []nodescore.Node
		want  []int64
	}{
		"nothing":                    {want: []int64{}},
		"one":                        {nodes: costs(7), want: []int64{100}},
		"equals":                     {nodes: costs(7, 7, 7), want: []int64{100, 100, 100}},
		"in proportion":              {nodes: costs(0, 1, 4), want: []int64{100, 75, 0}},
		"hardly a difference":        {nodes: costs(0, 1e-6, 1000), want: []int64{100, 99, 0}},
		"merit in proportion":        {nodes: []nodescore.Node{{Merit: 8}, {Merit: 7}, {Merit: 6}}, want: []int64{100, 87, 75}},
		"merit before cost":          {nodes: []nodescore.Node{{Merit: 8, Value: allocator.Value{Cost: 9}}, {Merit: 7}, {Merit: 7, Value: allocator.Value{Cost: 3}}}, want: []int64{100, 87, 0}},
		"node before apart":          {nodes: []nodescore.Node{{Value: allocator.Value{Node: 1, Apart: 1}}, {Value: allocator.Value{Node: 2}}}, want: []int64{100, 99}},
		"apart before cost":          {nodes: []nodescore.Node{{Value: allocator.Value{Cost: 9}}, {Value: apart}}, want: []int64{100, 99}},
		"merit with no points apart": {nodes: []nodescore.Node{{Merit: 1000}, {Merit: 1000, Value: allocator.Value{Cost: 1}}, {Merit: 999}}, want: []int64{100, 100, 99}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodescore.Sort(test.nodes)
			require.Equal(t, test.want, nodescore.Of(test.nodes))
		})
	}
}

// TestOrderIsKept: whatever the values, a worse node never has more points, and only equals of the
// best one have all.
func TestOrderIsKept(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewSource(1))
	for round := range 2000 {
		nodes := make([]nodescore.Node, 1+rng.Intn(300))
		kinds := 1 + rng.Intn(300)
		for i := range nodes {
			nodes[i].Merit = int64(rng.Intn(1 + round%600))
			nodes[i].Value = allocator.Value{Apart: uint64(rng.Intn(2)), Cost: float64(rng.Intn(kinds)) * rng.Float64()}
		}
		nodescore.Sort(nodes)
		scores := nodescore.Of(nodes)
		require.EqualValues(t, 100, scores[0])
		for i := 1; i < len(nodes); i++ {
			require.LessOrEqual(t, scores[i], scores[i-1])
			require.GreaterOrEqual(t, scores[i], int64(0))
			best := nodes[i].Merit == nodes[0].Merit && nodes[i].Value.Compare(nodes[0].Value) == 0
			if nodes[0].Merit == 0 { // Else other merits may leave no points to tell costs apart.
				require.Equal(t, best, scores[i] == 100)
			}
		}
	}
}

// TestScatter: two who scatter the same nodes prefer different ones, each the same every time, and
// never one that costs noticeably more.
func TestScatter(t *testing.T) {
	t.Parallel()
	const nodes, most = 200, 8
	scattered := func(seed string, round int) []nodescore.Node {
		list := costs(0.3, 0.31, 0.31, 0.32, 0.33, 0.34, 0.34, 0.34, 0.341, 0.4)
		for i := range list {
			list[i].Name = fmt.Sprint("node-", (i+round)%nodes)
		}
		nodescore.Scatter(list, seed, most, 0.04)
		require.Equal(t, 0.4, list[9].Value.Cost)
		for i, node := range list[:most] {
			require.LessOrEqual(t, node.Value.Cost, 0.34+1e-9, i)
		}
		require.Contains(t, nodescore.Of(list)[:1], int64(100))
		return list
	}
	same := 0
	for round := range nodes {
		one, other := scattered("quartermaster", round), scattered("quartermaster-2", round)
		require.Equal(t, one, scattered("quartermaster", round))
		if one[0].Name == other[0].Name {
			same++
		}
	}
	require.Less(t, same, nodes/4, "one in 8 by chance")

	few := []nodescore.Node{{Name: "a", Merit: 2, Value: allocator.Value{Cost: 1}}, {Name: "b", Merit: 1}, {Name: "c", Merit: 1, Value: allocator.Value{Apart: 1}}}
	want := slices.Clone(few)
	for seed := range 10 {
		nodescore.Scatter(few, fmt.Sprint(seed), most, 0.04)
		require.Equal(t, want, few, "merit comes first")
		nodescore.Scatter(few[1:], fmt.Sprint(seed), most, 0.04)
		require.Equal(t, want, few, "then who is apart")
	}
	nodescore.Scatter(nil, "x", most, 0.04)
}
