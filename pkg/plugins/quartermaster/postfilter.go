package quartermaster

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// PostFilter runs when no node fits. If a claim is the reason, because it is allocated where the pod cannot run or its
// devices do not get ready, and no other consumer uses it, then PostFilter deallocates it: the next attempt can
// allocate it elsewhere. If it is reserved for others too, PostFilter removes the pod's own reservation. It changes at most
// one claim per attempt.
//
// After that, and after finding a node that would fit, it returns Success: the pod can become schedulable, and later
// plugins, for example preemption, do not run. Otherwise they would evict pods although the pod may fit without that.
// The pod is tried again after its pause, or when an event says that it may fit.
func (pl *Quartermaster) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	defer pl.state.turns.Rejected(pod)
	result, status := pl.postFilter(ctx, cs, pod, statuses)
	entry := pl.waiting.Get(pod.UID)
	if entry == nil {
		return result, status
	}
	// Without a result, DefaultPreemption ends the nomination if it finds nobody to evict either.
	if ends := result == nil && status.Code() == fwk.Unschedulable || result != nil && result.Mode() == fwk.ModeOverride && result.NominatedNodeName == ""; ends {
		entry.Unnominated()
	}
	// Events wake only pods that this plugin has rejected, and other plugins may have rejected this one on all nodes. The end of the
	// pause after a takeover wakes those that wait for it. After an error, kube-scheduler has the pod wait like any that does not fit.
	if status.IsSuccess() && !nominates(result) && !pl.takeover.Keeps(pod) || status.Code() == fwk.Error {
		pl.waker.Retry(entry)
	}
	return result, status
}

// endNomination returns the result that ends the nomination of a pod.
func (pl *Quartermaster) endNomination(pod *v1.Pod) *fwk.PostFilterResult {
	pl.state.Freed(pl.state.nominations.Drop(pod.UID))
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
}

// nominates reports whether PostFilter's result nominates the pod for a node.
func nominates(result *fwk.PostFilterResult) bool {
	return result != nil && result.Mode() == fwk.ModeOverride && result.NominatedNodeName != ""
}

// postFilter implements PostFilter.
func (pl *Quartermaster) postFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if result, status := pl.postFilterGang(ctx, cs, pod); status != nil {
		return result, status
	}
	c, err := cycleOf(cs)
	if err != nil {
		return nil, failed(err)
	}
	if c == nil {
		if status := pl.widenWithoutDevices(ctx, cs, pod); status != nil {
			return nil, status
		}
	}
	if c == nil { // A plugin's PreFilter has rejected the pod.
		if result, status := pl.freeInTheWay(ctx, pod, pl.brokenClaims(pod), func(*podClaim) bool { return true }); status != nil {
			return result, status
		}
		if status := pl.removeUnasked(ctx, pod); status != nil {
			return pl.endNomination(pod), status // No other attempt has to follow that would end it.
		}
		return pl.unlessUsable(pod, statuses), fwk.NewStatus(fwk.Unschedulable)
	}
	if task := c.usualTask(); task != nil && c.pod.Learn() {
		pl.learner.Rejected(pl.searchContext(ctx, c), pod, c.takes, task, c.narrowedTo)
	}
	switch {
	case c.onlyBest:
		// Only an attempt on all nodes shows whether other nodes fit. Plugins that reject these must be among the
		// plugins that rejected the pod, or their events would not wake it.
		pl.lookEverywhere(ctx, c, pod)
		return nil, kube.New(fwk.Success, "the nodes where the devices are needed the least do not fit the pod but others may; looking again")
	case c.narrowedTo != nil && pl.chooser.JudgeOthers(ctx, cs, pod, c.narrowedTo, statuses):
		pl.lookEverywhere(ctx, c, pod)
		return nil, kube.New(fwk.Success, "devices became free meanwhile; looking again")
	}
	if result, status := pl.freeInTheWay(ctx, pod, c.claims, c.inTheWay); status != nil {
		return result, status
	}
	if status := c.legacy.Free(); status != nil {
		return nil, status
	}
	if status := ofRemoval(pl.removeMade(ctx, c, pod)); status != nil {
		return nil, status
	}
	if pl.takeover.Keeps(pod) {
		return nil, kube.New(fwk.Success, pl.takeover.Message("a claim"))
	}
	if status := pl.removeLeftCharge(ctx, c, pod); status != nil {
		return nil, status
	}
	return pl.preempt(ctx, cs, c, pod, statuses)
}

// freeInTheWay deallocates the first of these claims that is in the way, or leaves it to the other pods for which it is reserved.
// The status is nil if there is none.
func (pl *Quartermaster) freeInTheWay(ctx context.Context, pod *v1.Pod, claims []*podClaim, inTheWay func(*podClaim) bool) (*fwk.PostFilterResult, *fwk.Status) {
	for _, podClaim := range claims {
		if podClaim.Origin != commit.Given || !inTheWay(podClaim) || !pl.mayLeave(podClaim, pod.UID) {
			continue
		}
		if pl.takeover.FoundReserved(podClaim.Object, pod.UID, pod) {
			return unlessBroken(podClaim), kube.New(fwk.Success, pl.takeover.Message("claim "+klog.KObj(podClaim.Object).String()))
		}
		freed, err := pl.free(ctx, podClaim, pod, write.OfPod(pod))
		if err != nil {
			return nil, failed(err)
		}
		if !freed {
			return nil, kube.New(fwk.Success, "the pod has been bound by an earlier attempt")
		}
		if !onlyFor(podClaim, pod.UID) {
			return unlessBroken(podClaim), kube.Newf(fwk.Success, "claim %s is left to the other pods for which it is reserved", dra.Of(podClaim.Object))
		}
		if podClaim.Broken != nil {
			return unlessBroken(podClaim), kube.Newf(fwk.Success, "%v; the claim was deallocated to look for devices again", podClaim.Broken)
		}
		return nil, kube.Newf(fwk.Success, "claim %s was deallocated to find devices elsewhere", dra.Of(podClaim.Object))
	}
	return nil, nil
}

// brokenClaims returns the claims of a pod whose devices do not get ready, for a pod that is rejected before its claims are
// looked at: whatever keeps it from running, its devices are of no use to it.
func (pl *Quartermaster) brokenClaims(pod *v1.Pod) (broken []*podClaim) {
	needs := pl.needs.Of(pod)
	claims, err := needs.Claims()
	if err != nil || pl.commits.IsReleasing(pod.UID) {
		return nil // Without its claims the pod cannot be judged.
	}
	ours, _, err := needs.Divide(claims)
	if err != nil {
		return nil
	}
	for _, claim := range ours {
		if claim.Status.Allocation == nil {
			continue
		}
		if checked, status := pl.checkClaim(pod, claim, nil, nil); status == nil && checked.Broken != nil {
			broken = append(broken, checked)
		}
	}
	return broken
}

// removeUnasked deletes the claims that earlier attempts made for a pod's extended resources, if no class stands for these any more.
// The status is nil if there are none.
func (pl *Quartermaster) removeUnasked(ctx context.Context, pod *v1.Pod) *fwk.Status {
	needs := pl.needs.Of(pod)
	if needs.Backed() {
		return nil
	}
	made, err := needs.Made()
	if err != nil {
		return failed(err)
	}
	return ofRemoval(pl.remover.RemoveMade(ctx, pod, made, extended.NoClass))
}

// ofRemoval returns the status of PostFilter if it removed claims that earlier attempts made for extended resources, or
// could not; nil if there were none.
func ofRemoval(removed bool, err error) *fwk.Status {
	switch {
	case err != nil:
		return failed(err)
	case removed:
		return kube.New(fwk.Success, "the claim that an earlier attempt made for extended resources was deleted")
	}
	return nil
}

// unlessBroken ends the nomination of a pod if the devices of its claim did not get ready: kube-scheduler would try no
// other node as long as the nominated node fits.
func unlessBroken(podClaim *podClaim) *fwk.PostFilterResult {
	if podClaim.Broken == nil {
		return nil
	}
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: "", NominatingMode: fwk.ModeOverride}}
}

// lookEverywhere reactivates the pod at once, to be tried on all nodes.
func (pl *Quartermaster) lookEverywhere(ctx context.Context, c *cycle, pod *v1.Pod) {
	c.pod.LookEverywhere()
	pl.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// free deallocates a claim for a pod, if only the consumer may use it; otherwise it removes the consumer's reservation. It returns
// false, and leaves the claim alone, if the claim is reserved for the consumer and the server says that it is bound.
func (pl *Quartermaster) free(ctx context.Context, podClaim *podClaim, pod *v1.Pod, consumer resourceapi.ResourceClaimConsumerReference) (bool, error) {
	var unbound write.Unbound // None is needed for a claim that is not reserved.
	if len(podClaim.Object.Status.ReservedFor) > 0 {
		var err error
		if unbound, err = pl.writer.Ask(ctx, podClaim.Object, consumer); err != nil {
			return false, write.UnlessBound(err)
		}
	}
	claim, why := podClaim.Object, "because pod "+pod.Name+" fits no node where that can be used and nobody else uses it"
	if podClaim.Broken != nil {
		why = "because pod " + pod.Name + " cannot use that: " + podClaim.Broken.Error()
	}
	ctx = write.Because(ctx, write.Cause{Pod: pod, Why: why})
	if !onlyFor(podClaim, consumer.UID) {
		left, err := pl.writer.Release(ctx, claim, unbound)
		if err != nil {
			return false, write.UnlessBound(fmt.Errorf("leave claim %s to its other consumers: %w", klog.KObj(claim), err))
		}
		pl.commits.Observe(ctx, claim, left)
		return true, nil
	}
	freed, err := pl.writer.Deallocate(ctx, claim, unbound)
	if err != nil {
		return false, write.UnlessBound(fmt.Errorf("free the devices of claim %s (they fit no node): %w", klog.KObj(claim), err))
	}
	pl.commits.Observe(ctx, claim, freed)
	return true, nil
}

// inTheWay reports whether the claim keeps the pod from nodes. It returns false while a node on which the claim can be
// used may still have devices for the pod's other claims. A broken claim can be used on no node, also if other plugins
// reject all of them.
func (c *cycleNodes) inTheWay(podClaim *podClaim) bool {
	return podClaim.Broken != nil || c.unavailable[podClaim] && !c.undecided.Load()
}

// mayLeave reports whether the claim has no other consumers than the given pod or group, or is reserved for it and for other pods that
// all wait: with reservations that a process has left, they would wait for each other.
func (pl *Quartermaster) mayLeave(podClaim *podClaim, consumer types.UID) bool {
	claim := podClaim.Object
	return onlyFor(podClaim, consumer) || write.IsReservedFor(claim, consumer) &&
		!slices.ContainsFunc(claim.Status.ReservedFor, func(other resourceapi.ResourceClaimConsumerReference) bool {
			return other.UID != consumer && !pl.waitsFor(claim, other)
		})
}

// waitsFor reports whether a consumer of a claim is a pod that waits.
func (pl *Quartermaster) waitsFor(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) bool {
	pod := pl.claims.Pod(claim.Namespace, consumer.Name)
	return pod != nil && pod.UID == consumer.UID && pod.Spec.NodeName == ""
}

// onlyFor reports whether the claim has no consumers other than the given pod or group.
func onlyFor(podClaim *podClaim, only types.UID) bool {
	for _, consumer := range podClaim.Object.Status.ReservedFor {
		if consumer.UID != only {
			return false
		}
	}
	return true
}
