package devices

import (
	"slices"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// mostTogether limits the claims for which isTooMuch looks for devices together.
const mostTogether = 64

// isTooMuch reports whether the group lacks devices even if each node could reach all devices that any of the group's
// nodes reaches.
func (t *Trial) isTooMuch(group []int, beside []*unit) bool {
	all := &unit{}
	for _, number := range group {
		u := t.units[number]
		all.claims, all.nodes = append(all.claims, u.claims...), append(all.nodes, u.nodes...)
	}
	if len(all.claims) > mostTogether || slices.ContainsFunc(all.claims, dra.WantsAll) {
		return false
	}
	site, ok := t.joined(all.nodes)
	if !ok {
		return false
	}
	t.spend(len(all.claims), beside)
	outcome, err := t.Solver.Prepare(all.claims).Check(t.ctx, t.besides(site, beside))
	if err != nil {
		return false
	}
	defer outcome.Release()
	return !outcome.Fits() && !outcome.GaveUp
}

// joined returns a site that reaches the devices of all the nodes. It returns false if there is no such site.
func (t *Trial) joined(nodes []int) (allocator.NodeView, bool) {
	site := t.Site(t.Nodes[nodes[0]])
	site.Pools = nil
	known := make(map[inventory.PoolID]int)
	for _, node := range nodes {
		for _, pool := range t.Site(t.Nodes[node]).Pools {
			at, found := known[pool.ID]
			switch {
			case !pool.Skipping.Empty():
				return site, false // The usable devices depend on the node.
			case !found:
				known[pool.ID] = len(site.Pools)
				site.Pools = append(site.Pools, pool)
			case site.Pools[at] == pool:
			case site.Pools[at].Layout == pool.Layout:
				both := *pool
				both.Reachable = pool.Reachable.Clone()
				both.Reachable.Or(site.Pools[at].Reachable)
				site.Pools[at] = &both
			default:
				return site, false // The nodes see different slices.
			}
		}
	}
	return site, true
}
