package nodecache_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	builder "github.com/quartermaster-dra/quartermaster/test/builder"
)

// askWithout asks where a pod without devices takes away the least, on nodes that accepts admits.
func (p *priced) askWithout(t testing.TB, cpus int64, accepts func(string) bool) *nodecache.Answer {
	t.Helper()
	answer := p.index.Find(t.Context(), &nodecache.Question{
		Task: p.solver.Prepare(nil), Pod: noderesources.Resources{MilliCPU: cpus * 1000, Pods: 1}, WithoutDevices: true, Version: p.version, Accepts: accepts,
		Rate: func(_ context.Context, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
			require.GreaterOrEqual(t, room.MilliCPU, cpus*1000)
			require.NotEmpty(t, site.Pools, "a node without devices costs nothing")
			if len(p.nodes) < 20 {
				p.rated[site.Node.Name]++
			}
			return nodecache.Verdict{Fits: true, Value: allocator.Value{Cost: p.costs[site.Node.Name]}}, nil
		},
	})
	require.NotNil(t, answer)
	return answer
}

func everyNode(string) bool { return true }

// TestWithoutDevices: nodes without devices cost nothing and come first, nodes with devices next, and nodes without
// room do not come.
func TestWithoutDevices(t *testing.T) {
	p := newPriced(4)
	p.publish("n2", 0)
	p.costs["n0"], p.costs["n1"], p.costs["n3"] = 3, 1, 2
	a := p.askWithout(t, 2, everyNode)
	require.Equal(t, []string{"n2"}, best(a, 1, 1))
	require.Equal(t, []string{"n1", "n2"}, best(a, 2, 2))
	require.Len(t, best(a, 10, 10), 4)
	value, known := a.Value("n2")
	require.True(t, known)
	require.Zero(t, value)

	p.taken["n2"] = 3
	p.snapshot()
	require.Equal(t, []string{"n1"}, best(p.askWithout(t, 2, everyNode), 1, 1))
	p.taken["n2"], p.taken["n1"] = 1, 3
	p.snapshot()
	require.Equal(t, []string{"n2", "n3"}, best(p.askWithout(t, 2, everyNode), 2, 2))
	p.publish("n3", 0)
	require.Equal(t, []string{"n2", "n3"}, best(p.askWithout(t, 2, everyNode), 1, 2), "both cost nothing")
	p.publish("n2", 1)
	p.costs["n2"] = 9
	require.Equal(t, []string{"n0", "n3"}, best(p.askWithout(t, 2, everyNode), 2, 2))
}

// TestNothingToValue: while enough nodes cost nothing, what changes on nodes with devices is not valued.
func TestNothingToValue(t *testing.T) {
	p := newPriced(8)
	p.index.Enough = 2
	for i := range 4 {
		p.publish(fmt.Sprintf("n%d", i), 0)
	}
	p.askWithout(t, 1, everyNode)
	for range 5 {
		for i := range 8 {
			p.taken[fmt.Sprintf("n%d", i)] = 1 - p.taken[fmt.Sprintf("n%d", i)]
		}
		p.snapshot()
		require.Equal(t, []string{"n0", "n1", "n2", "n3"}, best(p.askWithout(t, 1, everyNode), 2, 4))
	}
	require.Empty(t, p.rated)
	require.NotEmpty(t, best(p.askWithout(t, 1, func(node string) bool { return node > "n3" }), 1, 8))
	require.NotEmpty(t, p.rated, "this pod cannot have the free ones")
}

// TestWithoutDevicesIsThatOfAllCosts changes things at random and compares with looking at everything.
func TestWithoutDevicesIsThatOfAllCosts(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	p := newPriced(12)
	for round := range 2_000 {
		node := fmt.Sprintf("n%d", rng.Intn(12))
		p.change(rng.Intn(4), rng, node)
		switch round % 7 {
		case 0:
			p.publish(node, rng.Intn(2))
		case 1:
			p.version++
		}
		cpus, admitted := int64(1+rng.Intn(3)), func(string) bool { return true }
		if round%3 == 0 {
			admitted = func(name string) bool { return name > "n3" }
		}
		var want []string
		least := 1e9
		cost := func(name string) float64 {
			if !p.store.IsLocal(name) {
				return 0
			}
			return p.costs[name]
		}
		for name := range p.nodes {
			if cpus <= 4-p.taken[name] && admitted(name) {
				want = append(want, name)
				least = min(least, cost(name))
			}
		}
		slices.Sort(want)
		a := p.askWithout(t, cpus, admitted)
		require.Subset(t, want, slices.Sorted(maps.Keys(a.Best(100, 100, admitted))))
		cheapest := slices.Sorted(maps.Keys(a.Best(1, 100, admitted)))
		require.Equal(t, len(want) > 0, len(cheapest) > 0)
		for _, name := range cheapest {
			require.InDelta(t, least, cost(name), 0, "round %d", round)
		}
	}
}

// BenchmarkWithoutDevices places pods without devices one after the other: each takes CPU of the node that the one
// before it got. In all clusters, 5,000 nodes, each with or without 8 devices.
func BenchmarkWithoutDevices(b *testing.B) {
	const nodes = 5000
	for _, test := range []struct {
		name            string
		without, shapes int
	}{{"half of the nodes have devices", nodes / 2, 1}, {"all nodes have devices", 0, 1}, {"all nodes have devices and pods ask for 10 sizes", 0, 10}} {
		b.Run(test.name, func(b *testing.B) {
			p := newPriced(0)
			for i := range nodes {
				name := fmt.Sprintf("n%d", i)
				p.addNode(name)
				if i >= test.without {
					p.publish(name, 8)
				}
			}
			p.snapshot()
			var all []fwk.NodeInfo
			for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
				all = append(all, p.infos[name])
			}
			objective := &allocator.Objective{Demand: likely()}
			question := func(shape int) *nodecache.Question {
				task, takes := p.solver.Prepare(nil), noderesources.Resources{MilliCPU: int64(shape + 1), Pods: 1}
				return &nodecache.Question{
					Task: task, Pod: takes, WithoutDevices: true, Accepts: everyNode,
					Rate: func(ctx context.Context, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
						site.Objective, site.Free, site.Asked = objective, allocator.Resources{MilliCPU: room.MilliCPU}, allocator.Resources{MilliCPU: takes.MilliCPU}
						outcome, err := task.Rate(ctx, site)
						if err != nil {
							return nodecache.Verdict{}, err
						}
						return nodecache.Verdict{Fits: true, Value: outcome.Value}, nil
					},
				}
			}
			for shape := range test.shapes {
				for range nodes / 16 {
					p.index.Find(b.Context(), question(shape))
				}
			}
			b.ResetTimer()
			for i := range b.N {
				p.rooms.Follow(all, false)
				for name := range p.index.Find(b.Context(), question(i%test.shapes)).Best(32, 64, everyNode) {
					b.StopTimer()
					p.infos[name].AddPod(builder.Pod("p", builder.Container("c", "cpu", "100m")))
					b.StartTimer()
					break
				}
			}
		})
	}
}

// likely is a demand of pods for 1 to 8 devices with 4 cores each.
func likely() *placement.Demand {
	d := &placement.Demand{Version: 1, Kinds: []string{placement.AnyDevice}}
	for _, count := range []int{1, 2, 4, 8} {
		d.Shapes = append(d.Shapes, placement.Shape{Weight: 0.25, MilliCPU: int64(500 * count), Requests: []placement.Request{{Count: count}}})
	}
	return d
}

// TestAllFreeNodesAreKnownInTheEnd: pods of one size are not sent to the nodes alone that were looked at first.
func TestAllFreeNodesAreKnownInTheEnd(t *testing.T) {
	p := newPriced(300)
	for i := range 300 {
		p.publish(fmt.Sprintf("n%d", i), 0)
	}
	seen := map[string]bool{}
	for range 60 {
		for _, name := range best(p.askWithout(t, 1, everyNode), 32, 64) {
			seen[name] = true
		}
	}
	require.Len(t, seen, 300)
}

// TestSelectivePodsChangeNothingForOthers: a pod that accepts no node without devices is no reason to look at others for the next one.
func TestSelectivePodsChangeNothingForOthers(t *testing.T) {
	p := newPriced(300)
	for i := range 200 {
		p.publish(fmt.Sprintf("n%d", i), 0)
	}
	p.askWithout(t, 1, func(node string) bool { return node > "n298" })
	a := p.askWithout(t, 1, everyNode)
	for _, name := range best(a, 32, 32) {
		value, known := a.Value(name)
		require.True(t, known)
		require.Zero(t, value, name)
	}
}
