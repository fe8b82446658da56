package trial

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// reach has a pod on one node use a claim that is planned on another one. If the devices planned for it cannot be used
// there, others are looked for that both nodes reach.
func (t *Trial) reach(s *step, claim *resourceapi.ResourceClaim, home int) gang.Answer {
	at := t.on[home]
	for i := range at.claims {
		if at.claims[i].UID == claim.UID && at.results != nil && isUsableOn(&at.results[i], t, s.node) {
			return gang.Yes
		}
	}
	both := commonPools(t.Site(t.Nodes[home]).Pools, t.Site(t.Nodes[s.node]).Pools)
	if len(both) == 0 {
		return gang.No // No device is in reach of both.
	}
	site := t.site(home)
	site.Pools = both
	results, answer := t.solve(&onNode{claims: []*resourceapi.ResourceClaim{claim}}, site, true)
	if answer != gang.Yes {
		return gang.Unknown
	}
	moved := ledger.Use{Claim: ledger.RefTo(claim), Allocation: &results[0]}
	return t.replan(s, home, moved)
}

// replan plans devices on a node anew, apart from those of one claim, which are given.
func (t *Trial) replan(s *step, node int, given ledger.Use) gang.Answer {
	before := t.on[node]
	rest := &onNode{}
	for _, claim := range before.claims {
		if claim.UID != given.Claim.UID {
			rest.claims = append(rest.claims, claim)
		}
	}
	next := &onNode{claims: before.claims, key: before.key, results: make([]resourceapi.AllocationResult, len(before.claims))}
	var results []resourceapi.AllocationResult
	if len(rest.claims) > 0 {
		site := t.site(node)
		site.Usage = ledger.WhatIf(site.Usage, nil, []ledger.Use{given})
		var answer gang.Answer
		if results, answer = t.solve(rest, site, true); answer != gang.Yes {
			return gang.Unknown
		}
	}
	for i, claim := range before.claims {
		if claim.UID == given.Claim.UID {
			next.results[i] = *given.Allocation
		} else {
			next.results[i], results = results[0], results[1:]
		}
	}
	if !t.keepsReach(node, next) {
		return gang.Unknown
	}
	t.put(s, node, next)
	return gang.Yes
}

// keepsReach reports whether what is planned on a node can still be used where other pods use claims of it.
func (t *Trial) keepsReach(node int, planned *onNode) bool {
	if !t.shared {
		return true
	}
	for i := range planned.results {
		if t.users[planned.claims[i].UID] < 2 {
			continue
		}
		for _, s := range t.steps {
			if s.node != node && uses(s.pod, planned.claims[i]) && !isUsableOn(&planned.results[i], t, s.node) {
				return false
			}
		}
	}
	return true
}

func uses(pod *Pod, claim *resourceapi.ResourceClaim) bool {
	for _, open := range pod.Open {
		if open.UID == claim.UID {
			return true
		}
	}
	return false
}

// isUsableOn reports whether an allocation can be used on a node.
func isUsableOn(allocation *resourceapi.AllocationResult, t *Trial, node int) bool {
	if allocation.NodeSelector == nil {
		return true
	}
	nodes, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
	return err == nil && nodes.Match(t.Nodes[node])
}

// commonPools returns what two nodes see in the same way.
func commonPools(a, b []*inventory.NodePool) (both []*inventory.NodePool) {
	for _, pool := range a {
		for _, other := range b {
			if pool == other {
				both = append(both, pool)
			}
		}
	}
	return both
}
