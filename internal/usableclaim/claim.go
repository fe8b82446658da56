// Package usableclaim finds out whether a pod can use its claims, and on which nodes: what is allocated for them, or
// planned for other pods of its group, has to be of use there. Where there are devices for what is not decided yet, it
// does not know.
package usableclaim

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
)

// Claim is one claim of a pod.
type Claim struct {
	commitrunner.Claim
	// Nodes are those on which the allocation can be used; nil means all.
	Nodes *nodeaffinity.NodeSelector
	// Broken is why the allocation is of no use on any node, nil if it is.
	Broken error
	// Shared is an allocation that is planned for other pods of the group already.
	Shared *resourceapi.AllocationResult
}

// Decided is the allocation that the claim has, or that is planned for others of the
// group; nil if it is up to the pod.
func (c *Claim) Decided() *resourceapi.AllocationResult {
	if c.IsAllocated() {
		return c.Object.Status.Allocation
	}
	return c.Shared
}

// UsableOn reports whether what is decided can be used on a node, unless it is broken.
func (c *Claim) UsableOn(node *v1.Node) bool {
	if !c.admits(node) {
		return false
	}
	return !skipsNodeOperations(c.Decided()) ||
		slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
}

// admits reports whether the node is among those of the claim.
func (c *Claim) admits(node *v1.Node) bool { return c.Nodes == nil || c.Nodes.Match(node) }

// skipsNodeOperations reports whether a device of the allocation needs a kubelet
// that can leave out operations for it.
func skipsNodeOperations(allocation *resourceapi.AllocationResult) bool {
	return slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.SkipNodeOperations) > 0
	})
}

// share has the pod use what is planned for the claim, if anything is.
func (c *Claim) share(planned *resourceapi.AllocationResult) error {
	c.Shared = planned
	if planned == nil || planned.NodeSelector == nil {
		return nil
	}
	nodes, err := nodeaffinity.NewNodeSelector(planned.NodeSelector)
	if err != nil {
		return fmt.Errorf("claim %s: the node selector of what is planned for it cannot be parsed: %w", claimname.Of(c.Object), err)
	}
	c.Nodes = nodes
	return nil
}
