package trial

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// mostTogether is for how many claims on several nodes it is found out whether there are devices for all of them.
const mostTogether = 64

// rearrange is for a node without devices for one more pod, where devices that are planned for the gang elsewhere may be
// in the way: the node chooses first, and then those that are in its way choose again.
func (t *Trial) rearrange(s *step, next *onNode) gang.Answer {
	rivals := t.rivals(s.node)
	if len(rivals) == 0 {
		return gang.No
	}
	site := t.Site(t.Nodes[s.node])
	site.Usage = ledger.WhatIf(site.Usage, nil, t.plannedBut(append(rivals, s.node)...))
	results, answer := t.solve(next, site, true)
	if answer != gang.Yes {
		return answer
	}
	moved := step{changed: make(map[int]*onNode)}
	next.results = results
	t.put(&moved, s.node, next)
	for _, node := range rivals {
		before := t.on[node]
		t.put(&moved, node, &onNode{claims: before.claims, key: before.key})
	}
	for _, node := range rivals {
		again := &onNode{claims: t.on[node].claims, key: t.on[node].key}
		if again.results, answer = t.solve(again, t.site(node), true); answer != gang.Yes || !t.keepsReach(node, again) {
			t.undo(&moved)
			if t.isTooMuch(append(rivals, s.node), next) {
				return gang.No
			}
			return gang.Unknown
		}
		t.put(&moved, node, again)
	}
	if !t.keepsReach(s.node, next) {
		t.undo(&moved)
		return gang.Unknown
	}
	for node, before := range moved.changed {
		if _, noted := s.changed[node]; !noted {
			s.changed[node] = before
		}
	}
	return gang.Yes
}

// rivals returns the other nodes on which the gang has devices that the node reaches as well.
func (t *Trial) rivals(node int) (rivals []int) {
	reached := make(map[inventory.PoolID]bool)
	for _, pool := range t.Site(t.Nodes[node]).Pools {
		reached[pool.ID] = true
	}
	for other := range t.Nodes { // In their order, so that the answer is always the same.
		planned := t.on[other]
		if other == node || planned == nil {
			continue
		}
		for i := range planned.results {
			if anyIn(reached, &planned.results[i]) {
				rivals = append(rivals, other)
				break
			}
		}
	}
	return rivals
}

func anyIn(pools map[inventory.PoolID]bool, allocation *resourceapi.AllocationResult) bool {
	for used := range ledger.Used(allocation) {
		if pools[ledger.PoolOf(used)] {
			return true
		}
	}
	return false
}

// isTooMuch reports whether there are too few devices for what is wanted on several nodes even if each node reached all
// that one of them reaches. next is what is wanted on the last one.
func (t *Trial) isTooMuch(nodes []int, next *onNode) bool {
	all := &onNode{}
	site := t.Site(t.Nodes[nodes[len(nodes)-1]])
	site.Pools = nil
	known := make(map[inventory.PoolID]*inventory.NodePool)
	for _, node := range nodes {
		for _, pool := range t.Site(t.Nodes[node]).Pools {
			switch before := known[pool.ID]; before {
			case nil:
				known[pool.ID] = pool
				site.Pools = append(site.Pools, pool)
			case pool:
			default:
				return false // They see the pool differently.
			}
		}
		planned := t.on[node]
		if node == nodes[len(nodes)-1] {
			planned = next
		}
		all.claims = append(all.claims, planned.claims...)
	}
	if len(all.claims) > mostTogether {
		return false
	}
	site.Usage = ledger.WhatIf(site.Usage, nil, t.plannedBut(nodes...))
	task := t.Solver.Prepare(all.claims)
	outcome, err := task.Check(t.ctx, site)
	if err != nil {
		return false
	}
	defer outcome.Release()
	return !outcome.Fits() && !outcome.GaveUp
}
