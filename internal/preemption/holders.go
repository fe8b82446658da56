package preemption

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Holders knows the pods because of which claims hold devices. It is safe for concurrent use.
type Holders struct {
	Ledger *ledger.Ledger
	Claims *podclaims.Claims
	// Trying returns a pod that this scheduler is just binding, nil if it does not.
	Trying func(types.UID) *v1.Pod
	// Priority is the priority by which a pod may be evicted.
	Priority func(*v1.Pod) int32

	remembered remembered
}

// holding is what keeps a claim allocated.
type holding struct {
	// pods are on a node, or about to be.
	pods []*v1.Pod
	// others is set if there is anybody else who needs the claim: a pod that is not on a node yet, or of which
	// nothing is known. No eviction ends that.
	others bool
}

// holding returns what keeps a claim allocated. It is empty if the claim is about to be deallocated, because
// all that used it have ended.
func (h *Holders) holding(use ledger.Use) (result holding) {
	for i := range use.ReservedFor {
		consumer := &use.ReservedFor[i]
		if podgroup.Is(*consumer) {
			members := h.members(use.Claim, consumer.Name)
			result.pods = append(result.pods, members...)
			result.others = result.others || len(members) == 0
			continue
		}
		pod := h.Claims.Pod(use.Claim.Namespace, consumer.Name)
		switch {
		case consumer.Resource != "pods" || consumer.APIGroup != "":
			result.others = true
		case pod == nil || pod.UID != consumer.UID || hasEnded(pod):
		case pod.Spec.NodeName != "":
			result.pods = append(result.pods, pod)
		case !slices.Contains(use.InFlight, pod.UID):
			result.others = true
		}
	}
	for _, user := range use.InFlight {
		if slices.ContainsFunc(result.pods, func(pod *v1.Pod) bool { return pod.UID == user }) {
			continue // Its binding is known, and the attempt is about to end.
		}
		if pod := h.Trying(user); pod != nil {
			result.pods = append(result.pods, pod)
		} else {
			result.others = true
		}
	}
	return result
}

// members returns the pods of a group that use a claim of it on a node. As long as there are others of the group,
// the claim is only kept for them.
func (h *Holders) members(claim ledger.ClaimRef, group string) []*v1.Pod {
	pods, err := h.Claims.Users(claim.Namespace, claim.Name)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		return podgroup.NameOf(pod) != group || pod.Spec.NodeName == "" || hasEnded(pod)
	})
}

// hasEnded reports whether a pod does not use its claims any more, by the rule of the resource claim controller.
func hasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// standing returns the standing of a claim in the eyes of a pod of some priority. Eviction makes a claim free if all that
// keep it allocated are pods of lower priority. It is about to be deallocated if it is reserved only for pods that have
// ended.
func (h *Holders) standing(claim types.UID, priority int32) claimStanding {
	use := h.Ledger.UseOf(claim)
	holding := h.holding(use)
	switch {
	case holding.others:
	case len(holding.pods) == 0 && len(use.ReservedFor) > 0:
		return claimStanding{standing: ending}
	case len(holding.pods) > 0 && !slices.ContainsFunc(holding.pods, func(pod *v1.Pod) bool { return h.Priority(pod) >= priority }):
		return claimStanding{standing: below, pods: holding.pods, steady: isSteady(use, holding.pods)}
	}
	return claimStanding{}
}

// Released returns what claims would hold no longer if some pods were gone, by UID: a claim is free when all
// of its consumers are.
func (h *Holders) Released(gone map[types.UID]*v1.Pod) []ledger.Use {
	var released []ledger.Use
	seen := make(map[types.UID]bool)
	for _, pod := range gone {
		for _, use := range h.UsesOf(pod) {
			if seen[use.Claim.UID] {
				continue
			}
			seen[use.Claim.UID] = true
			holding := h.holding(use)
			if !holding.others && !slices.ContainsFunc(holding.pods, func(pod *v1.Pod) bool { return gone[pod.UID] == nil }) {
				released = append(released, use)
			}
		}
	}
	return released
}

// UsesOf returns what the claims of a pod hold, those that are reserved for its group among them.
func (h *Holders) UsesOf(pod *v1.Pod) []ledger.Use {
	uses := h.Ledger.UsesBy(pod.UID)
	if podgroup.NameOf(pod) == "" {
		return uses
	}
	for _, claim := range h.Claims.OfBound(pod) {
		use := h.Ledger.UseOf(claim.UID)
		if use.Allocation != nil && !slices.ContainsFunc(uses, func(known ledger.Use) bool { return known.Claim.UID == claim.UID }) {
			uses = append(uses, use)
		}
	}
	return uses
}
