package quartermaster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/internal/clusterstate"
)

// claimResolver finds out what claims ask for that do not say so themselves, because class
// and parameters do (v1alpha2). See apiversions.Resolver.
type claimResolver interface {
	Resolve(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	SuitableNodes(*resourceapi.ResourceClaim) *v1.NodeSelector
	OnChange(func(concerns func(*resourceapi.ResourceClaim) bool))
}

// resolveClaims is for servers that may have such claims. Pods that wait for class or
// parameters are woken when these come.
func (pl *Quartermaster) resolveClaims(resolver claimResolver) {
	pl.resolver = resolver
	pl.solver.Resolve = resolver.Resolve
	pl.solver.Evaluator = pl.state.Memory.NewEvaluator(celFeatures(pl.features), apiversions.NewLanguage(clusterstate.CompiledExpressions))
	resolver.OnChange(func(concerns func(*resourceapi.ResourceClaim) bool) {
		for _, entry := range pl.waiting.All() {
			missing, _ := entry.Wanted()
			if slices.ContainsFunc(missing, concerns) {
				pl.waker.Wake(entry)
			} else {
				entry.MissIfOpen()
			}
		}
	})
}

// restrictToClass confines a claim without allocation to the nodes that suit its class.
func (pl *Quartermaster) restrictToClass(claim *podClaim) *fwk.Status {
	if pl.resolver == nil {
		return nil
	}
	terms := pl.resolver.SuitableNodes(claim.claim)
	if terms == nil {
		return nil
	}
	nodes, err := nodeaffinity.NewNodeSelector(terms)
	if err != nil {
		return waiting("claim %s: the suitableNodes of its class cannot be parsed: %v", claimname.Of(claim.claim), err)
	}
	claim.nodes = nodes
	return nil
}

// filterUnsuitable rejects a node that does not suit the class of a claim.
func (c *cycle) filterUnsuitable(node *v1.Node) *fwk.Status {
	for _, claim := range c.claims {
		if claim.decided() == nil && claim.nodes != nil && !claim.nodes.Match(node) {
			return waiting("claim %s: the node is not among the suitableNodes of its class", claimname.Of(claim.claim))
		}
	}
	return nil
}
