package eligibility

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// Claim is a claim of a pod.
type Claim struct {
	commit.Claim
	// Nodes selects the nodes on which the allocation can be used; nil means all.
	Nodes *nodeaffinity.NodeSelector
	// Broken is the reason why the allocation cannot be used on any node, nil if it can.
	Broken error
	// Shared is an allocation that is already planned for other pods of the group.
	Shared *resourceapi.AllocationResult
}

// Decided returns the allocation of the claim, or the one planned for other pods of the group; nil
// if the pod's own attempt decides.
func (c *Claim) Decided() *resourceapi.AllocationResult {
	if c.IsAllocated() {
		return c.Object.Status.Allocation
	}
	return c.Shared
}

// UsableOn reports whether the decided allocation can be used on a node. It does not look at
// Broken.
func (c *Claim) UsableOn(node *v1.Node) bool {
	if !c.admits(node) {
		return false
	}
	return !skipsNodeOperations(c.Decided()) ||
		slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
}

// admits reports whether the claim's node selector matches the node.
func (c *Claim) admits(node *v1.Node) bool { return c.Nodes == nil || c.Nodes.Match(node) }

// skipsNodeOperations reports whether a device of the allocation needs a kubelet that can skip
// operations for it.
func skipsNodeOperations(allocation *resourceapi.AllocationResult) bool {
	return slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.SkipNodeOperations) > 0
	})
}

// share makes the pod use the allocation planned for the claim, if there is one.
func (c *Claim) share(planned *resourceapi.AllocationResult) error {
	c.Shared = planned
	if planned == nil || planned.NodeSelector == nil {
		return nil
	}
	nodes, err := nodeaffinity.NewNodeSelector(planned.NodeSelector)
	if err != nil {
		return fmt.Errorf("claim %s: the node selector of what is planned for it cannot be parsed: %w", dra.Of(c.Object), err)
	}
	c.Nodes = nodes
	return nil
}
