package quartermaster

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/commit"
)

// PreBindPreFlight tells the scheduler whether there is anything to write.
func (pl *Quartermaster) PreBindPreFlight(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	c, err := cycleOf(cs)
	if err != nil {
		return result, failed(err)
	}
	if c == nil || len(c.claims) == 0 && c.classic == nil {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes allocations and reservations, then makes sure that nobody else holds the
// same, and waits until the devices are ready. When it returns success, the server has
// confirmed for every claim that it is allocated as planned and reserved for the pod, also
// for claims that looked like that already: what we saw may be old. If it fails, the
// scheduler calls Unreserve.
func (pl *Quartermaster) PreBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c == nil {
		return nil
	}
	if err := pl.reserveClassic(ctx, c, pod); err != nil {
		return failed(err)
	}
	if len(c.claims) == 0 {
		return nil
	}
	status := pl.preBind(ctx, c, pod, node)
	c.cancelled = !status.IsSuccess() && ctx.Err() != nil
	return status
}

// preBind is PreBind for pods that use claims.
func (pl *Quartermaster) preBind(ctx context.Context, c *cycle, pod *v1.Pod, node string) *fwk.Status {
	if err := pl.settlePlan(ctx, c); err != nil {
		return failed(err)
	}
	for _, podClaim := range c.claims {
		if err := pl.write(ctx, pod, podClaim); err != nil {
			return failed(err)
		}
	}
	if status := pl.confirm(ctx, c, pod); !status.IsSuccess() {
		return status
	}
	if status := pl.awaitBindingConditions(ctx, c, pod, node); !status.IsSuccess() {
		return status
	}
	if status := pl.recordExtended(ctx, c, pod); !status.IsSuccess() {
		return status
	}
	// The binding is next, and unlike what is written to claims, the server cannot refuse it for
	// being late.
	if err := pl.state.lease.Leads(); err != nil {
		return failed(fmt.Errorf("the pod must not be bound by this process: %w", err))
	}
	return nil
}

// write allocates the claim as planned, if it is planned, and reserves it for the pod.
func (pl *Quartermaster) write(ctx context.Context, pod *v1.Pod, podClaim *podClaim) error {
	podClaim.touched, podClaim.allocation = true, podClaim.planned
	if podClaim.group != nil {
		pl.groups.touch(podClaim.claim.UID, podClaim.planned)
	}
	if err := pl.createSpecial(ctx, pod, podClaim); err != nil {
		return err
	}
	before, consumer := pl.upToDate(podClaim), podClaim.consumer(pod)
	claim, err := pl.writer.Bind(ctx, before, podClaim.planned, consumer)
	if err != nil {
		return explainBind(podClaim, err)
	}
	pl.takeover.made(before, claim, consumer.UID)
	pl.observe(ctx, claim)
	podClaim.claim = claim
	if podClaim.planned != nil {
		pl.state.freed(pl.state.ledger.RemoveInFlight(claim.UID, pod.UID))
		podClaim.planned = nil
		pl.signalWritten(podClaim)
	}
	return nil
}

// upToDate returns the claim as it is known now. Other pods that share it may have been
// reserved since this one was filtered, or may have written what is planned for all of
// them, and a write that begins there is not refused. With another allocation than the one
// for which the node was chosen, it is not the same claim any more, and what the pod saw
// is returned.
func (pl *Quartermaster) upToDate(podClaim *podClaim) *resourceapi.ResourceClaim {
	seen := podClaim.claim
	latest := pl.claim(seen.Namespace, seen.Name)
	if latest == nil || latest.UID != seen.UID {
		return seen
	}
	written := podClaim.planned != nil && commit.SameAllocation(latest.Status.Allocation, podClaim.planned)
	if !written && !apiequality.Semantic.DeepEqual(latest.Status.Allocation, seen.Status.Allocation) {
		return seen
	}
	return latest
}

// explainBind adds what will happen next.
func explainBind(podClaim *podClaim, err error) error {
	if errors.Is(err, commit.ErrAllocatedElsewhere) || errors.Is(err, commit.ErrDeallocated) {
		return fmt.Errorf("claim %s changed while the pod was being scheduled, trying again: %w", klog.KObj(podClaim.claim), err)
	}
	return fmt.Errorf("reserve claim %s for the pod: %w", klog.KObj(podClaim.claim), err)
}

// observe makes the result of a write known here before the informer does: in the
// ledger, and to all who look at claims through the scheduler's shared manager.
func (pl *Quartermaster) observe(ctx context.Context, claim *resourceapi.ResourceClaim) {
	pl.state.freed(pl.state.ledger.Observe(claim))
	if err := pl.handle.SharedDRAManager().ResourceClaims().AssumeClaimAfterAPICall(claim); err != nil {
		// Not a problem: the informer was faster, or the claim is gone.
		klog.FromContext(ctx).V(5).Info("Claim not stored in assume cache", "claim", klog.KObj(claim), "err", err)
	}
}
