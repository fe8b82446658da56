package eligibility

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Reasons begin with the in-tree plugin's text, so that searches and alerts for it find the pods of
// both plugins.
const (
	notOnNode     = "resourceclaim not available on the node: "
	usedByTooMany = "resourceclaim in use: "
)

// Rules decides which claims a pod can use. The zero value is not usable.
type Rules struct {
	// OfGroups is set if claims can be reserved for PodGroups (gate DRAWorkloadResourceClaims).
	OfGroups bool
	// RefuseOfNode is set if devices that take resources of their node are refused (gate
	// DRANodeAllocatableResources); Pools finds these devices.
	RefuseOfNode bool
	Pools        ledger.Pools
	// Server has the maximum number of consumers of a claim.
	Server claims.Server
	// Attempt is the attempt to schedule the pod.
	Attempt Attempt
	// Legacy is nil if the server serves all resources in v1.
	Legacy *classicdra.Mode
}

// Attempt is an attempt to schedule pods.
type Attempt interface {
	// Planned returns the allocation planned for an unallocated claim, nil if there is none, and
	// whether the pod can use it.
	Planned(pod *v1.Pod, claim types.UID) (planned *resourceapi.AllocationResult, usable bool)
	// BrokenBinding returns why waiting for the devices of a claim is useless, nil if it is not.
	BrokenBinding(pod *v1.Pod, claim *resourceapi.ResourceClaim) error
}

// Check returns a claim as the pod can use it, or an error if the pod cannot use it on any node.
func (r *Rules) Check(pod *v1.Pod, claim *resourceapi.ResourceClaim) (*Claim, error) {
	result := &Claim{Claim: commit.Claim{Object: claim}}
	if !result.IsAllocated() {
		if err := r.checkOpen(pod, result); err != nil {
			return nil, err
		}
		return result, nil
	}
	if !resourceclaim.IsReservedForPod(pod, claim, r.OfGroups) && len(claim.Status.ReservedFor) >= r.Server.ConsumerLimit(claim) {
		return nil, fmt.Errorf(usedByTooMany+"claim %s is reserved for %d pods (the limit); waiting for one of them to end",
			dra.Of(claim), len(claim.Status.ReservedFor))
	}
	if r.RefuseOfNode {
		if err := claims.Check(claim, r.Pools); err != nil {
			return nil, err
		}
	}
	if result.Broken = classicdra.DeallocationRequested(claim); result.Broken == nil {
		result.Broken = r.Attempt.BrokenBinding(pod, claim)
	}
	if terms := claim.Status.Allocation.NodeSelector; terms != nil {
		nodes, err := nodeaffinity.NewNodeSelector(terms)
		if err != nil {
			return nil, fmt.Errorf("claim %s: the node selector of its allocation cannot be parsed: %w", dra.Of(claim), err)
		}
		result.Nodes = nodes
	}
	return result, nil
}

// checkOpen implements Check for an unallocated claim: if an allocation is in flight, only some
// pods can use it.
func (r *Rules) checkOpen(pod *v1.Pod, claim *Claim) error {
	planned, usable := r.Attempt.Planned(pod, claim.Object.UID)
	if planned != nil && !usable {
		return fmt.Errorf("claim %s is being allocated for another pod; waiting for that to be done", dra.Of(claim.Object))
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
