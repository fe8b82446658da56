package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// sites returns the allocator's site of a node.
type sites func(*v1.Node) allocator.NodeView

// spread extends the use of a claim to one more node, and reports whether the claim needs other devices for that.
func (t *Trial) spread(s *step, claim *resourceapi.ResourceClaim, on []int) bool {
	number := t.numbers[claim.UID]
	next := &unit{claims: []*resourceapi.ResourceClaim{claim}, nodes: t.on[claim.UID]}
	if len(on) > 1 {
		next = next.with(t.units[number].results)
	} else {
		home := t.units[on[0]]
		at := slices.IndexFunc(home.claims, func(c *resourceapi.ResourceClaim) bool { return c.UID == claim.UID })
		rest := &unit{claims: slices.Delete(slices.Clone(home.claims), at, at+1), nodes: home.nodes}
		t.put(s, on[0], rest.with(slices.Delete(slices.Clone(home.results), at, at+1)))
		next = next.with(home.results[at : at+1])
	}
	if isUsableOn(&next.results[0], t.Nodes[s.node]) {
		t.put(s, number, next)
		return false
	}
	t.put(s, number, next.with(nil))
	return true
}

// findForSeveral looks for devices for a claim that is used on several nodes.
func (t *Trial) findForSeveral(task *allocator.Task, u *unit, site sites, beside []*unit) ([]resourceapi.AllocationResult, search.Answer) {
	claim := u.claims[0]
	if !dra.WantsAll(claim) {
		view := site(t.Nodes[u.nodes[0]])
		view.Pools = t.commonPools(view.Pools, u.nodes[1:])
		return t.search(task, t.besides(view, beside), true)
	}
	// A request for all devices means all that a node reaches, not only those that it shares with other nodes. But
	// another node may reach no more than that.
	unsure := !wantsOnlyAll(claim)
	for _, node := range u.nodes {
		results, answer := t.search(task, t.besides(site(t.Nodes[node]), beside), true)
		if answer == search.Yes && t.isUsableOnAll(&results[0], u.nodes) {
			return results, search.Yes
		}
		unsure = unsure || answer == search.Unknown
	}
	if unsure {
		return nil, search.Unknown
	}
	return nil, search.No
}

// isUsableOnAll reports whether an allocation can be used on all of the given nodes.
func (t *Trial) isUsableOnAll(allocation *resourceapi.AllocationResult, nodes []int) bool {
	return !slices.ContainsFunc(nodes, func(node int) bool { return !isUsableOn(allocation, t.Nodes[node]) })
}

// isUsableOn reports whether an allocation can be used on a node.
func isUsableOn(allocation *resourceapi.AllocationResult, node *v1.Node) bool {
	if allocation.NodeSelector == nil {
		return true
	}
	nodes, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
	return err == nil && nodes.Match(node)
}

// commonPools returns the pools of a node, with only those devices that can be used on the other nodes as well.
func (t *Trial) commonPools(pools []*inventory.NodePool, others []int) (common []*inventory.NodePool) {
	var views [][]*inventory.NodePool
	for _, node := range others {
		views = append(views, t.Site(t.Nodes[node]).Pools)
	}
	for _, pool := range pools {
		if pool.State != inventory.Complete {
			continue
		}
		part := *pool
		part.Reachable = pool.Reachable.Clone()
		for i := range pool.Reachable.All() {
			if ptr.Deref(pool.Devices[i].BindsToNode, false) {
				part.Reachable.Remove(i)
			}
		}
		seen := !slices.ContainsFunc(views, func(view []*inventory.NodePool) bool { return !keepReachable(&part, view) })
		if seen && !part.Reachable.Empty() {
			common = append(common, &part)
		}
	}
	return common
}

// keepReachable removes the devices from part of a pool that another node does not reach. It reports whether that
// node sees the pool.
func keepReachable(part *inventory.NodePool, view []*inventory.NodePool) bool {
	at := slices.IndexFunc(view, func(p *inventory.NodePool) bool { return p.ID == part.ID && p.State == inventory.Complete })
	switch {
	case at < 0:
		return false
	case part.Layout == view[at].Layout:
		part.Reachable.And(view[at].Reachable)
		return true
	}
	for i := range part.Reachable.All() {
		if position, found := view[at].Position(part.Devices[i].Name); !found || !view[at].Reachable.Has(position) {
			part.Reachable.Remove(i)
		}
	}
	return true
}

func wantsOnlyAll(claim *resourceapi.ResourceClaim) bool {
	all := 0
	for r := range dra.Requests(claim) {
		if r.All() && r.Alternative == "" {
			all++
		}
	}
	return all == len(claim.Spec.Devices.Requests)
}
