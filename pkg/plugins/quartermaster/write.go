package quartermaster

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

// write allocates the claim as planned, if it is planned, and reserves it for the pod.
func (pl *Quartermaster) write(ctx context.Context, pod *v1.Pod, podClaim *podClaim) error {
	if err := pl.createSpecial(ctx, pod, podClaim); err != nil {
		return err
	}
	before, consumer := pl.upToDate(podClaim), podClaim.consumer(pod)
	claim, err := pl.writer.Bind(ctx, before, podClaim.planned, consumer)
	if err != nil {
		return explainBind(podClaim, err)
	}
	pl.takeover.Made(before, claim, consumer.UID)
	pl.observe(ctx, claim)
	podClaim.claim = claim
	return nil
}

// upToDate returns the claim as it is known now. Other pods that share it may have been
// reserved since this one was filtered, or may have written what is planned for all of
// them, and a write that begins there is not refused. With another allocation than the one
// for which the node was chosen, it is not the same claim any more, and what the pod saw
// is returned.
func (pl *Quartermaster) upToDate(podClaim *podClaim) *resourceapi.ResourceClaim {
	seen := podClaim.claim
	latest := pl.claims.Claim(seen.Namespace, seen.Name)
	if latest == nil || latest.UID != seen.UID {
		return seen
	}
	written := podClaim.planned != nil && claimwriter.SameAllocation(latest.Status.Allocation, podClaim.planned)
	if !written && !apiequality.Semantic.DeepEqual(latest.Status.Allocation, seen.Status.Allocation) {
		return seen
	}
	return latest
}

// explainBind adds what will happen next.
func explainBind(podClaim *podClaim, err error) error {
	if errors.Is(err, claimwriter.ErrAllocatedElsewhere) || errors.Is(err, claimwriter.ErrDeallocated) {
		return fmt.Errorf("claim %s changed while the pod was being scheduled, trying again: %w", klog.KObj(podClaim.claim), err)
	}
	return fmt.Errorf("reserve claim %s for the pod: %w", klog.KObj(podClaim.claim), err)
}

// observe makes the result of a write known here before the informer does: in the
// ledger, and to all who look at claims through the scheduler's shared manager.
func (pl *Quartermaster) observe(ctx context.Context, claim *resourceapi.ResourceClaim) {
	pl.state.Freed(pl.state.Ledger.Observe(claim))
	if err := pl.handle.SharedDRAManager().ResourceClaims().AssumeClaimAfterAPICall(claim); err != nil {
		// Not a problem: the informer was faster, or the claim is gone.
		klog.FromContext(ctx).V(5).Info("Claim not stored in assume cache", "claim", klog.KObj(claim), "err", err)
	}
}
