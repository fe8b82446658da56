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

// Variants have the part of typed tasks that their names promise.
func TestVariants(t *testing.T) {
	t.Parallel()
	for i := range variants {
		v := &variants[i]
		_, tasks := v.draw(4, 42)
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

// Devices that belong together are together far more often than with first-fit, as often as with a rule made for it, and the largest
// requests are not the price.
func TestNear(t *testing.T) {
	t.Parallel()
	const held, steps, seeds = 0.85, 2000, 1
	for i := range near {
		of := &near[i]
		got := map[string][]float64{}
		for _, p := range nearPolicies {
			got[p.name] = of.mean(held, steps, seeds, p.make)
		}
		ours := got["ours"]
		for ask, a := range of.asks {
			spread, full, rule := got[nearPolicies[0].name][ask], got[nearPolicies[1].name][ask], got[nearPolicies[2].name][ask]
			if a.level < 0 {
				require.LessOrEqual(t, ours[ask], spread, "%s: %s refused", of.name, a.name)
				require.LessOrEqual(t, ours[ask], max(full, rule)+10, "%s: %s refused", of.name, a.name)
				continue
			}
			require.Greater(t, ours[ask], max(spread, full)+20, "%s: %s", of.name, a.name)
			require.GreaterOrEqual(t, ours[ask], rule-1, "%s: %s", of.name, a.name)
		}
	}
}

// What counts as together is what the drivers publish, and each pod holds what it asked for.
func TestNearKeepsAccounts(t *testing.T) {
	t.Parallel()
	require.True(t, near[0].together([]int{2, 3}, 0))
	require.False(t, near[0].together([]int{1, 2}, 0))
	require.True(t, near[0].together([]int{0, 1, 2, 3}, 1))
	require.False(t, near[0].together([]int{3, 4}, 1))
	require.True(t, near[1].together([]int{6, 7, 11}, 0), "the last NIC is beside the last GPUs")
	require.False(t, near[1].together([]int{5, 11}, 0))
	for i := range near {
		of := &near[i]
		for _, p := range nearPolicies {
			policy := p.make()
			checked := func(w *nearWorld, ask int) (int, []int, bool) {
				node, devices, ok := policy(w, ask)
				had := map[string]int{}
				for _, d := range devices {
					had[of.devices[d].driver]++
				}
				a := &of.asks[ask]
				if ok {
					require.Equal(t, []int{a.gpus, a.nics}, []int{had[gpuDriver], had[nicDriver]}, p.name)
				} else {
					for n := range w.nodes {
						require.False(t, w.fits(&w.nodes[n], a), "%s refused what fits", p.name)
					}
				}
				return node, devices, ok
			}
			first := of.play(0.95, 600, 1, checked)
			require.Equal(t, first, of.play(0.95, 600, 1, p.make()), p.name)
		}
	}
}

func TestPlot(t *testing.T) {
	*scale = 64
	svg := draw()
	require.Equal(t, 5, strings.Count(svg, "<polyline"))
	require.True(t, strings.HasSuffix(svg, "</svg>\n"))
}
