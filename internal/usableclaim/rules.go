package usableclaim

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
	"github.com/quartermaster-dra/quartermaster/internal/legacy"
	"github.com/quartermaster-dra/quartermaster/internal/nodeallocatable"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// What the in-tree plugin says comes first in the reasons of ours, so that those who search for it, or have alerts for
// it, find pods of either.
const (
	notOnNode     = "resourceclaim not available on the node: "
	usedByTooMany = "resourceclaim in use: "
)

// Rules are those by which a pod can use claims. The zero value is not useful.
type Rules struct {
	// OfGroups is set if claims can be reserved for PodGroups (gate DRAWorkloadResourceClaims).
	OfGroups bool
	// RefuseOfNode is set if devices that take resources of their node are refused (gate DRANodeAllocatableResources); Pools
	// has what is known of them.
	RefuseOfNode bool
	Pools        ledger.Pools
	// ConsumerLimit is how many consumers a claim can have.
	ConsumerLimit func(*resourceapi.ResourceClaim) int
	// Planned returns what is planned for a claim without allocation, nil if nothing is, and whether the pod can use that.
	Planned func(claim types.UID) (planned *resourceapi.AllocationResult, usable bool)
	// BrokenBinding says why nobody should wait for the devices of a claim, nil if there is no reason.
	BrokenBinding func(*resourceapi.ResourceClaim) error
	// Legacy is nil if the server has everything in v1.
	Legacy *legacy.Mode
}

// Check returns a claim as the pod can use it. It fails if something keeps the pod from using it on any node; the text
// says what.
func (r *Rules) Check(pod *v1.Pod, claim *resourceapi.ResourceClaim) (*Claim, error) {
	result := &Claim{Claim: commitrunner.Claim{Object: claim}}
	if !result.IsAllocated() {
		if err := r.checkOpen(result); err != nil {
			return nil, err
		}
		return result, nil
	}
	if !resourceclaim.IsReservedForPod(pod, claim, r.OfGroups) && len(claim.Status.ReservedFor) >= r.ConsumerLimit(claim) {
		return nil, fmt.Errorf(usedByTooMany+"claim %s is reserved for %d pods (the limit); waiting for one of them to end",
			claimname.Of(claim), len(claim.Status.ReservedFor))
	}
	if r.RefuseOfNode {
		if err := nodeallocatable.Check(claim, r.Pools); err != nil {
			return nil, err
		}
	}
	if result.Broken = legacy.DeallocationRequested(claim); result.Broken == nil {
		result.Broken = r.BrokenBinding(claim)
	}
	if terms := claim.Status.Allocation.NodeSelector; terms != nil {
		nodes, err := nodeaffinity.NewNodeSelector(terms)
		if err != nil {
			return nil, fmt.Errorf("claim %s: the node selector of its allocation cannot be parsed: %w", claimname.Of(claim), err)
		}
		result.Nodes = nodes
	}
	return result, nil
}

// checkOpen is Check for a claim without allocation: if one is in flight, not every pod can use it.
func (r *Rules) checkOpen(claim *Claim) error {
	planned, usable := r.Planned(claim.Object.UID)
	if planned != nil && !usable {
		return fmt.Errorf("claim %s is being allocated for another pod; waiting for that to be done", claimname.Of(claim.Object))
	}
	if err := claim.share(planned); err != nil {
		return err
	}
	nodes, err := r.Legacy.SuitableNodes(claim.Object)
	if err == nil && nodes != nil {
		claim.Nodes = nodes
	}
	return err
}
