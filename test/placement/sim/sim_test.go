package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// On an eighth of the trace, the objective does better than what it is compared with, although these know the tasks that will come.
func TestTrace(t *testing.T) {
	t.Parallel()
	got := map[string]float64{}
	for _, p := range players {
		c := p.play(&variants[0], 8, 42)
		require.Len(t, c, 131, p.name)
		got[p.name] = c[130]
	}
	require.Greater(t, got["ours"], 95.0)
	for name, peer := range got {
		if name != "ours" && name != "ours *" {
			require.Greater(t, got["ours"], peer, name)
		}
	}
	require.Greater(t, got["ours *"], got["first-fit"])
	require.Greater(t, got["ours *"], got["FGD, best fit *"])
}

// No policy makes a node hold more than it has, and the figures are those of what is held.
func TestPlayKeepsAccounts(t *testing.T) {
	t.Parallel()
	for _, p := range players {
		nodes, tasks := variants[0].draw(16, 43)
		whole := append([]node(nil), nodes...)
		c := play(nodes, tasks, p.make(tasks), p.plain)
		capacity, held := 0, 0
		for i, n := range nodes {
			require.GreaterOrEqual(t, n.milliCPU, int64(0), p.name)
			require.GreaterOrEqual(t, n.memory, int64(0), p.name)
			require.GreaterOrEqual(t, n.gpus[0], int16(0), p.name)
			capacity += whole[i].n * trace.WholeGPU
			held += whole[i].left() - n.left()
		}
		require.InDelta(t, 100*float64(held)/float64(capacity), c[len(c)-1], 0.2, p.name)
	}
}

// Variants have the part that their names promise.
func TestVariants(t *testing.T) {
	t.Parallel()
	for i := range variants {
		v := &variants[i]
		_, tasks := v.draw(4, 42)
		if v.typed > 0 {
			typed, all := 0, 0
			for i := range tasks {
				if tasks[i].GPUs > 0 {
					all++
				}
				if tasks[i].model != "" {
					typed++
				}
			}
			require.InDelta(t, v.typed, float64(typed)/float64(all), 0.05, v.name)
			continue
		}
		if v.part == 0 {
			continue
		}
		in, all := 0.0, 0.0
		for i := range tasks {
			w := v.weight(&tasks[i])
			all += w
			if v.sort(&tasks[i]) {
				in += w
			}
		}
		require.InDelta(t, v.part, in/all, 0.05, v.name)
	}
}

// On a node with partitions, more GPUs stay whole than with first-fit, and fewer large requests are refused.
func TestPartitions(t *testing.T) {
	t.Parallel()
	first, learnNothing := migPolicies[0].make()
	cost, learn := migPolicies[2].make()
	was := playMIG(0.7, 1, false, first, learnNothing)
	is := playMIG(0.7, 1, false, cost, learn)
	require.Greater(t, is.free, was.free+5)
	require.Less(t, is.refused, was.refused-3)
}

func TestPlot(t *testing.T) {
	*scale = 64
	svg := draw()
	require.Equal(t, 5, strings.Count(svg, "<polyline"))
	require.True(t, strings.HasSuffix(svg, "</svg>\n"))
}
