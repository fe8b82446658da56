package negotiation

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/quartermaster-dra/quartermaster/internal/api"
)

// Attempt is one attempt to schedule a pod. Check may be called concurrently, the other methods before or after it.
type Attempt struct {
	// Pod is the UID of the pod.
	Pod types.UID
	// Claims are the pod's claims that controllers allocate, in the pod's order.
	Claims []*Claim
	// Context is the pod's latest known context, nil if there is none. Read-only.
	Context *api.PodSchedulingContext
	// Structured is set if the pod has other claims without allocation. Then no node is selected before all
	// controllers have answered.
	Structured bool

	// feasible are the nodes that pass all plugins, nil if SetFeasible was not called.
	feasible []string

	mutex sync.Mutex
	// unavailable are the claims whose allocation excludes some node.
	unavailable sets.Set[*Claim]
}

// Check says why the claims cannot be used on a node, nil if they can.
func (a *Attempt) Check(node *v1.Node) error {
	var reason error
	for _, claim := range a.Claims {
		err := claim.check(node, a.Context.OfClaim(claim.Reference))
		if err == nil {
			continue
		}
		if errors.Is(err, errElsewhere) {
			a.mutex.Lock()
			a.unavailable = a.unavailable.Union(sets.New(claim))
			a.mutex.Unlock()
		}
		if reason == nil {
			reason = err
		}
	}
	return reason
}

// SetFeasible sets the nodes on which the pod could run. It is not needed for a single node.
func (a *Attempt) SetFeasible(nodes []string) { a.feasible = nodes }

// Pending returns the claims without allocation.
func (a *Attempt) Pending() []*Claim {
	return slices.DeleteFunc(slices.Clone(a.Claims), (*Claim).Allocated)
}

// Freeable returns the first claim that keeps the pod from some node and has no other consumer, nil if there is none.
// spokenFor reports whether a claim was allocated for another pod that has not reserved it yet.
func (a *Attempt) Freeable(spokenFor func(*Claim) bool) *Claim {
	for _, claim := range a.Claims {
		if a.unavailable.Has(claim) && claim.MayBeFreed(a.Pod) && !spokenFor(claim) {
			return claim
		}
	}
	return nil
}

// Select decides what to tell the controllers, after the scheduler has chosen a node. If all claims are allocated,
// there is nothing to tell and proceed is true.
func (a *Attempt) Select(node string) (spec api.PodSchedulingContextSpec, proceed bool) {
	pending := a.Pending()
	if a.Context != nil {
		spec = a.Context.DeepCopy().Spec
	}
	if len(pending) == 0 {
		return spec, true
	}
	feasible := a.feasible
	if feasible == nil {
		feasible = []string{node}
	}
	spec.PotentialNodes = potentialNodes(spec.PotentialNodes, feasible, node)
	if spec.SelectedNode != "" && !slices.Contains(feasible, spec.SelectedNode) {
		spec.SelectedNode = ""
	}
	if spec.SelectedNode == "" && a.informed(pending) {
		spec.SelectedNode = preferAsked(spec.PotentialNodes, feasible, node)
	}
	return spec, false
}

// preferAsked returns the scheduler's node, unless controllers were asked about other feasible nodes and not about
// this one: they have not refused the others. In a cluster of a thousand nodes with few suitable ones, each change of
// the node would cost a write and an answer.
func preferAsked(asked, feasible []string, node string) string {
	if slices.Contains(asked, node) {
		return node
	}
	open := sets.New(asked...).Intersection(sets.New(feasible...)).UnsortedList()
	if len(open) == 0 {
		return node
	}
	return open[rand.IntN(len(open))]
}

// informed reports whether enough answers are known to select a node. With one claim, a wrong node costs nothing: the
// claim is allocated or not. With several, one may be allocated for a node where another cannot be, and must be freed
// again.
func (a *Attempt) informed(pending []*Claim) bool {
	if len(pending) == 1 && !a.Structured {
		return true
	}
	return !slices.ContainsFunc(pending, func(c *Claim) bool { return a.Context.OfClaim(c.Reference) == nil })
}

// potentialNodes returns the nodes to ask about, sorted: those already asked about, together with the feasible ones.
// If these are too many, it returns only the former while one of them is feasible, and otherwise the latter: a random
// choice that includes the given node, so that the next attempt has another one. Nodes already asked about stay if
// possible: controllers only remember answers about current potential nodes, and in a cluster of more than a hundred
// nodes the scheduler finds different feasible nodes each time.
func potentialNodes(asked, feasible []string, node string) []string {
	known := sets.New(asked...)
	if known.HasAll(feasible...) {
		return asked
	}
	nodes := known.Union(sets.New(feasible...)).UnsortedList()
	if len(nodes) > api.PotentialNodesMaxSize {
		if known.HasAny(feasible...) {
			return asked
		}
		nodes = slices.Clone(feasible)
	}
	if len(nodes) > api.PotentialNodesMaxSize {
		nodes = slices.DeleteFunc(nodes, func(name string) bool { return name == node })
		rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		nodes = append(nodes[:api.PotentialNodesMaxSize-1], node)
	}
	slices.Sort(nodes)
	return nodes
}

// Waiting describes what the pod waits for after the decision of Select.
func (a *Attempt) Waiting(spec api.PodSchedulingContextSpec) string {
	var names []string
	for _, claim := range a.Pending() {
		names = append(names, claim.nameWithDriver())
	}
	whose, what := "the driver of claim ", "it"
	if len(names) > 1 {
		whose, what = "the drivers of claims ", "them"
	}
	text := "waiting for " + whose + strings.Join(names, " and ")
	if spec.SelectedNode == "" {
		return text + " to say which nodes are suitable"
	}
	return text + " to allocate " + what + " for the selected node " + spec.SelectedNode
}

// Progress reports whether a change of a pod's context may help the pod, whose pending references are given, and
// whether the pod should be tried at once. The latter is true if controllers have answered for the first time, or
// have refused the selected node. While answers are missing, another attempt would not help.
func Progress(before, after *api.PodSchedulingContext, pending []string) (helps, atOnce bool) {
	if len(pending) == 0 || slices.ContainsFunc(pending, func(reference string) bool { return after.OfClaim(reference) == nil }) {
		return false, false
	}
	if before == nil || len(before.Status.ResourceClaims) < len(after.Status.ResourceClaims) {
		return true, true
	}
	if sameStatus(before, after) {
		return false, false
	}
	return true, slices.ContainsFunc(after.Status.ResourceClaims, func(s api.ClaimSchedulingStatus) bool {
		return after.Spec.SelectedNode != "" && slices.Contains(s.UnsuitableNodes, after.Spec.SelectedNode)
	})
}

func sameStatus(a, b *api.PodSchedulingContext) bool {
	return slices.EqualFunc(a.Status.ResourceClaims, b.Status.ResourceClaims, func(x, y api.ClaimSchedulingStatus) bool {
		return x.Name == y.Name && slices.Equal(x.UnsuitableNodes, y.UnsuitableNodes)
	})
}
