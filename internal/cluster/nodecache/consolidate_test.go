package nodecache_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// opened is the cost of a node without pods in these tests.
const opened = 1e3

// askConsolidating asks for the node of a pod that is to use few nodes, with a device or without.
func (p *priced) askConsolidating(t *testing.T, devices bool, cpus int64) *nodecache.Answer {
	t.Helper()
	q := p.asking(t, 1, cpus)
	rate := q.Rate
	if !devices {
		q.Task, q.WithoutDevices, q.Accepts = p.solver.Prepare(nil), true, everyNode
		rate = func(_ context.Context, site allocator.NodeView, _ noderesources.Resources) (nodecache.Verdict, error) {
			return nodecache.Verdict{Fits: true, Value: allocator.Value{Cost: p.costs[site.Node.Name]}}, nil
		}
	}
	q.Consolidates = true
	q.Rate = func(ctx context.Context, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
		verdict, err := rate(ctx, site, room)
		if room.Since == 0 {
			verdict.Value.Node = opened
		}
		return verdict, err
	}
	a := p.index.Find(t.Context(), q)
	require.NotNil(t, a)
	return a
}

// TestNodesInUseAreFoundFirst: for the first pod of a kind the index looks at some nodes, but at those in use before others.
func TestNodesInUseAreFoundFirst(t *testing.T) {
	for _, devices := range []bool{true, false} {
		p := newPriced(200)
		p.index.Enough, p.index.AtOnce = 8, 4
		p.taken["n137"], p.taken["n166"] = 1, 1
		p.snapshot()
		require.Equal(t, []string{"n137", "n166"}, best(p.askConsolidating(t, devices, 1), 2, 2), devices)
		require.Equal(t, []string{"n137"}, best(p.askConsolidating(t, devices, 3), 1, 1))
		require.NotContains(t, best(p.askConsolidating(t, devices, 4), 2, 2), "n137", "it has no room")
	}
}

// TestConsolidatingIsThatOfAllCosts changes things at random and compares with looking at everything.
func TestConsolidatingIsThatOfAllCosts(t *testing.T) {
	for _, devices := range []bool{true, false} {
		rng := rand.New(rand.NewSource(1))
		p := newPriced(12)
		for round := range 1_000 {
			node := fmt.Sprintf("n%d", rng.Intn(12))
			p.change(rng.Intn(4), rng, node)
			switch round % 7 {
			case 0:
				p.publish(node, rng.Intn(2))
			case 1:
				p.version++
			}
			cpus, least := int64(1+rng.Intn(3)), 2*opened
			cost := func(name string) float64 {
				if len(p.infos[name].GetPods()) == 0 {
					return opened + p.costs[name]
				}
				return p.costs[name]
			}
			a := p.askConsolidating(t, devices, cpus)
			for name := range p.nodes {
				if _, rated := a.Value(name); rated {
					least = min(least, cost(name))
				} else if cpus <= 4-p.taken[name] && !devices {
					t.Fatalf("round %d: the cost of node %s is not known", round, name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(a.Best(1, 1, everyNode))) {
				require.InDelta(t, least, cost(name), 0, "round %d", round)
			}
		}
	}
}
