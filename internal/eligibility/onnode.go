package eligibility

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// NotOn returns the allocated claims that cannot be used on a node, and the reason why the pod
// cannot run there. The reason is nil if all decided allocations can be used.
func NotOn(node *v1.Node, claims []*Claim) (allocated []*Claim, reason error) {
	for _, claim := range claims {
		if claim.Decided() == nil || claim.Broken == nil && claim.UsableOn(node) {
			continue
		}
		if !claim.IsAllocated() {
			reason = fmt.Errorf(notOnNode+"claim %s is being allocated on other nodes for the pod's group", dra.Of(claim.Object))
			continue
		}
		allocated = append(allocated, claim)
		switch {
		case reason != nil:
		case claim.Broken != nil:
			reason = fmt.Errorf(notOnNode+"%w", claim.Broken)
		default:
			reason = fmt.Errorf(notOnNode+"claim %s is allocated on other nodes", dra.Of(claim.Object))
		}
	}
	return allocated, reason
}

// Unsuitable returns an error if a node does not suit the class of a claim without a decided
// allocation.
func Unsuitable(node *v1.Node, claims []*Claim) error {
	for _, claim := range claims {
		if claim.Decided() == nil && !claim.admits(node) {
			return fmt.Errorf("claim %s: the node is not among the suitableNodes of its class", dra.Of(claim.Object))
		}
	}
	return nil
}

// Admit reports whether the node selectors of all claims match a node.
func Admit(node *v1.Node, claims []*Claim) bool {
	return !slices.ContainsFunc(claims, func(claim *Claim) bool { return !claim.admits(node) })
}

// NodeSelectors returns the node selectors of the allocated claims; nil stands for all nodes.
func NodeSelectors(claims []*Claim) (selectors []*v1.NodeSelector) {
	for _, claim := range claims {
		if claim.IsAllocated() {
			selectors = append(selectors, claim.Object.Status.Allocation.NodeSelector)
		}
	}
	return selectors
}

// Open returns the claims without a decided allocation: the pod's own attempt decides.
func Open(claims []*Claim) (open []*Claim) {
	for _, claim := range claims {
		if claim.Decided() == nil {
			open = append(open, claim)
		}
	}
	return open
}

// Objects returns the API objects of the claims.
func Objects(claims []*Claim) (objects []*resourceapi.ResourceClaim) {
	for _, claim := range claims {
		objects = append(objects, claim.Object)
	}
	return objects
}

// UIDs returns the UIDs of claims.
func UIDs(claims []*Claim) []types.UID {
	uids := make([]types.UID, len(claims))
	for i, claim := range claims {
		uids[i] = claim.Object.UID
	}
	return uids
}
