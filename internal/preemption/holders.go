package preemption

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/internal/kube/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Holders finds the pods that keep claims allocated. It is safe for concurrent use.
type Holders struct {
	Ledger *ledger.Ledger
	Claims *podclaims.Claims
	// Profiles are the profiles of this scheduler.
	Profiles Profiles
	// Snapshot has the PodGroups of the API, whose priority counts for their pods. It is nil if there can be none.
	Snapshot Snapshot

	remembered remembered
}

// Profiles are the profiles of a scheduler.
type Profiles interface {
	// Trying returns a pod that one of the profiles tries to schedule or is binding, nil if none does.
	Trying(types.UID) *v1.Pod
	// Binding returns a pod whose claims are written in an attempt that has not ended, nil if there is none. The end of the attempt undoes that.
	Binding(types.UID) *v1.Pod
	// Schedules reports whether one of the profiles schedules the pods with a spec.schedulerName.
	Schedules(schedulerName string) bool
}

// Snapshot has the state of the cluster as of the current scheduling cycle. fwk.Handle implements it.
type Snapshot interface {
	SnapshotSharedLister() fwk.SharedLister
}

// Waits implements Ranking.
func (h *Holders) Waits(pod *v1.Pod) bool {
	_, scheduled := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	return scheduled != nil && scheduled.Status == v1.ConditionFalse && h.Profiles.Schedules(pod.Spec.SchedulerName)
}

// Priority returns the priority that decides whether a pod may be evicted.
func (h *Holders) Priority(pod *v1.Pod) int32 {
	if h.Snapshot == nil {
		return corev1helpers.PodPriority(pod)
	}
	return preemption.PodPriority(pod, h.Snapshot.SnapshotSharedLister().PodGroups())
}

// HeldBy returns the pods that keep a claim allocated, also those that have no node yet, and whether another consumer does that as
// well, which no pod's end ends.
func (h *Holders) HeldBy(use ledger.Use) (pods []*v1.Pod, others bool) {
	holding := h.holding(use)
	return append(holding.pods, holding.unbound...), holding.foreign
}

// holding lists the consumers that keep a claim allocated.
type holding struct {
	// pods are bound to a node, or about to be.
	pods []*v1.Pod
	// unbound are pods without a node that no attempt of this scheduler is under way for: another scheduler's, or one whose
	// binding is not known yet.
	unbound []*v1.Pod
	// others is set if there are further consumers: a pod without a node, or a consumer that is not known. No
	// eviction ends these. foreign is set if one of them is no pod.
	others, foreign bool
}

// holding returns the consumers that keep a claim allocated. It is empty if the claim is about to be
// deallocated, because all its pods have ended.
func (h *Holders) holding(use ledger.Use) (result holding) {
	for i := range use.ReservedFor {
		consumer := &use.ReservedFor[i]
		if dra.IsPodGroup(*consumer) {
			members := h.members(use.Claim, consumer.Name)
			result.pods = append(result.pods, members...)
			if len(members) == 0 {
				result.others, result.foreign = true, true
			}
			continue
		}
		pod := h.Claims.Pod(use.Claim.Namespace, consumer.Name)
		switch {
		case !dra.IsPod(*consumer):
			result.others, result.foreign = true, true
		case pod == nil || pod.UID != consumer.UID || dra.HasEnded(pod):
		case pod.Spec.NodeName != "":
			result.pods = append(result.pods, pod)
		case slices.Contains(use.InFlight, pod.UID):
		default:
			if binding := h.Profiles.Binding(pod.UID); binding != nil { // Its claim is stored already.
				result.pods = append(result.pods, binding)
				continue
			}
			result.others, result.unbound = true, append(result.unbound, pod)
		}
	}
	for _, user := range use.InFlight {
		if slices.ContainsFunc(result.pods, func(pod *v1.Pod) bool { return pod.UID == user }) {
			continue // The pod's binding is known, and its attempt is about to end.
		}
		if pod := h.Profiles.Trying(user); pod != nil {
			result.pods = append(result.pods, pod)
		} else {
			result.others = true
		}
	}
	return result
}

// members returns the pods of a group that use one of the group's claims on a node. The claim's reservation for
// the group lasts as long as the group has other pods.
func (h *Holders) members(claim ledger.ClaimRef, group string) []*v1.Pod {
	pods, err := h.Claims.Users(claim.Namespace, claim.Name)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		return dra.PodGroupName(pod) != group || pod.Spec.NodeName == "" || dra.HasEnded(pod)
	})
}

// stateOf returns the state of a claim for a pod of the given priority. It is below if only pods of lower priority
// keep the claim allocated: eviction frees it. It is ending if the claim is reserved only for pods that have ended: it
// is about to be deallocated.
func (h *Holders) stateOf(claim types.UID, priority int32) claimState {
	use := h.Ledger.UseOf(claim)
	holding := h.holding(use)
	switch {
	case holding.others:
	case len(holding.pods) == 0 && len(use.ReservedFor) > 0:
		return claimState{keeping: ending}
	case len(holding.pods) > 0 && !slices.ContainsFunc(holding.pods, func(pod *v1.Pod) bool { return h.Priority(pod) >= priority }):
		return claimState{keeping: below, pods: holding.pods, steady: isSteady(use, holding.pods)}
	}
	return claimState{}
}

// WithoutEnded returns the usage without those of some claims that are about to be deallocated: all their pods have ended by now.
func (h *Holders) WithoutEnded(usage ledger.View, claims []ledger.ClaimRef) ledger.View {
	return ledger.Without(usage, func(claim types.UID) bool {
		return slices.ContainsFunc(claims, func(ref ledger.ClaimRef) bool { return ref.UID == claim }) && h.stateOf(claim, math.MaxInt32).keeping == ending
	})
}

// Released returns the uses that end if the given pods (by UID) are gone. A claim is free when all its
// consumers are gone.
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

// UsesOf returns the uses of a pod's claims, including claims that are reserved for its group.
func (h *Holders) UsesOf(pod *v1.Pod) []ledger.Use {
	uses := h.Ledger.UsesBy(pod.UID)
	if dra.PodGroupName(pod) == "" {
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
