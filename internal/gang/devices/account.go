package devices

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// A Room is a node with some pods. Only Books and Accounts look inside.
type Room = any

// An Account counts what the devices of a pod take of a node's own resources, such as CPUs (KEP-5517).
type Account interface {
	// TakesAlready reports whether devices of its allocated claims take any.
	TakesAlready() bool
	// Charge returns the pod as it counts on a node with these allocations of its open claims, in the order of OpenOn. If the
	// node has not enough for it, Charge returns the reason instead.
	Charge(node Room, open []resourceapi.AllocationResult) (counted *v1.Pod, reason string)
	// IsForOnePod reports whether no two pods can use the allocation.
	IsForOnePod(*resourceapi.AllocationResult) bool
	// DecidedForOnePod returns its allocated claims that no two pods can use.
	DecidedForOnePod() []*resourceapi.ResourceClaim
}

// Books hold what pods of the gang take of nodes.
type Books interface {
	// Without returns a copy of a node without pods of the gang, and Put adds a pod to such a copy.
	Without(node int) Room
	Put(node Room, pod *v1.Pod)
	// Recount lets the gang's pods on a node count as these, and returns a function that undoes that.
	Recount(node int, pods []*v1.Pod) (undo func())
	// Refuse notes why a node does not take a pod of a class.
	Refuse(class, node int, why string)
}

// onlyForOne is the in-tree plugin's reason.
const onlyForOne = "has a mapped device and cannot be shared across pods"

// takes reports whether devices on a node may take resources of the node.
func (t *Trial) takes(node int) bool {
	if t.Books == nil || t.takingAll {
		return t.takingAll
	}
	known, found := t.taking[node]
	if !found {
		known = slices.ContainsFunc(t.Site(t.Nodes[node]).Pools, (*inventory.NodePool).MayTakeOfNode)
		t.taking[node] = known
	}
	return known
}

// count counts what the devices take that were planned in a step. It returns the step's pod as it counts on its node; nil if a node has
// not enough. If it has not with the first devices, it may have with those that cost the least.
func (t *Trial) count(s *step) *v1.Pod {
	if t.Books == nil {
		return s.pod.Pod
	}
	if claim := t.sharedInVain(s); claim != nil {
		t.Books.Refuse(s.class, s.node, "claim "+dra.Of(claim)+" "+onlyForOne)
		return nil
	}
	counted, reason := t.countOn(s)
	if counted == nil && t.units[s.node] != nil && len(t.units[s.node].claims) > 0 {
		u := t.units[s.node]
		if results, answer := t.find(u, t.Valued, t.plannedBut(s.node), true); answer == search.Yes {
			t.put(s, s.node, u.with(results))
			counted, _ = t.countOn(s)
		}
	}
	if counted == nil {
		t.Books.Refuse(s.class, s.node, reason)
	}
	return counted
}

// countOn implements count with the devices as they are planned.
func (t *Trial) countOn(s *step) (counted *v1.Pod, reason string) {
	nodes := map[int]bool{s.node: true}
	for number := range s.units {
		for _, node := range t.units[number].nodes {
			nodes[node] = true
		}
	}
	counted = s.pod.Pod
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if !t.takes(node) {
			continue
		}
		pods := t.podsOn(node)
		before := len(pods)
		if node == s.node {
			pods = append(pods, s.pod)
		}
		as, reason := t.charge(node, pods)
		if reason != "" {
			return nil, reason
		}
		if before > 0 {
			s.undo = append(s.undo, t.Books.Recount(node, as[:before]))
		}
		if node == s.node {
			counted = as[before]
		}
	}
	return counted, ""
}

// podsOn returns the pods that were added to a node.
func (t *Trial) podsOn(node int) (pods []*Pod) {
	for i := range t.steps {
		if t.steps[i].node == node {
			pods = append(pods, t.steps[i].pod)
		}
	}
	return pods
}

// charge returns pods as they count together on a node, with the devices that are planned; or why the node has not enough.
func (t *Trial) charge(node int, pods []*Pod) (counted []*v1.Pod, reason string) {
	info := t.Books.Without(node)
	for _, pod := range pods {
		as := pod.Pod
		if pod.Account != nil {
			claims, _ := pod.OpenOn(t.Nodes[node])
			open := make([]resourceapi.AllocationResult, len(claims))
			for i, claim := range claims {
				open[i] = t.planned(claim, node)
			}
			if as, reason = pod.Account.Charge(info, open); reason != "" {
				return nil, reason
			}
		}
		t.Books.Put(info, as)
		counted = append(counted, as)
	}
	return counted, ""
}

// planned returns what is planned for a claim of a pod on a node; it is empty if its devices do not matter.
func (t *Trial) planned(claim *resourceapi.ResourceClaim, node int) resourceapi.AllocationResult {
	numbers := []int{node}
	if number, shared := t.numbers[claim.UID]; shared {
		numbers = append(numbers, number)
	}
	for _, number := range numbers {
		if u := t.units[number]; u != nil && u.results != nil {
			if at := slices.IndexFunc(u.claims, func(c *resourceapi.ResourceClaim) bool { return c.UID == claim.UID }); at >= 0 {
				return u.results[at]
			}
		}
	}
	return resourceapi.AllocationResult{}
}

// sharedInVain returns a claim of a step's pod that another pod of the gang uses already, with devices for one pod; nil if there is none.
func (t *Trial) sharedInVain(s *step) *resourceapi.ResourceClaim {
	if s.pod.Account == nil {
		return nil
	}
	used := func(claim *resourceapi.ResourceClaim, of func(*Pod) []*resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(t.steps, func(other step) bool {
			return slices.ContainsFunc(of(other.pod), func(c *resourceapi.ResourceClaim) bool { return c.UID == claim.UID })
		})
	}
	for _, claim := range s.pod.Open {
		if _, shared := t.numbers[claim.UID]; !shared {
			continue
		}
		inUse := used(claim, func(pod *Pod) []*resourceapi.ResourceClaim { return pod.Open })
		if planned := t.planned(claim, s.node); inUse && s.pod.Account.IsForOnePod(&planned) {
			return claim
		}
	}
	for _, claim := range s.pod.Account.DecidedForOnePod() {
		if used(claim, (*Pod).decidedForOnePod) {
			return claim
		}
	}
	return nil
}

// decidedForOnePod returns the pod's allocated claims that no two pods can use.
func (p *Pod) decidedForOnePod() []*resourceapi.ResourceClaim {
	if p.Account == nil {
		return nil
	}
	return p.Account.DecidedForOnePod()
}

// hasEnough reports whether the nodes have enough for the pods with a unit's devices as they are planned.
func (t *Trial) hasEnough(u *unit) bool {
	return !slices.ContainsFunc(u.nodes, func(node int) bool {
		if !t.takes(node) {
			return false
		}
		_, reason := t.charge(node, t.podsOn(node))
		return reason != ""
	})
}
