package quartermaster

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
)

// settlePlan waits before the pod's claims are written, as long as others are busy with
// allocations, and fails if somebody else has been allocated the same meanwhile. What is
// not written need not be released, which matters to others: when the first of two claims
// lets go of a device, the default scheduler takes it for free. Without others it does not
// look: our watch may be behind the informer from which the plan was made.
func (pl *Quartermaster) settlePlan(ctx context.Context, c *cycle) error {
	var conflict *claimlog.Conflict
	waited, err := pl.contest.Begin(c.allocations()...).BeforeWrite(ctx, func() bool {
		conflict = pl.planLost(c)
		return conflict != nil
	})
	if waited > 0 {
		metrics.waited(stagePreWriteSettle, waited)
	}
	if err != nil || conflict == nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Not allocating a claim because somebody else was allocated the same", "conflict", conflict.String())
	return fmt.Errorf("%w: %s; looking for other devices", errConflict, conflict)
}

// settle waits after the pod's claims were written, once: others may have decided before they
// could know of that, which takes them the settle time at most, or as long as they are busy.
// It returns the claims that are lost by then, those included that were lost already.
func (pl *Quartermaster) settle(ctx context.Context, c *cycle, lost []lostClaim) ([]lostClaim, error) {
	settling := pl.contest.Begin(c.allocations()...)
	if !settling.Contested() && len(lost) == 0 {
		return nil, nil
	}
	waited, err := settling.AfterWrite(ctx, func() { lost = addLost(lost, pl.lost(c, true)) })
	metrics.waited(stagePostWriteSettle, waited)
	return lost, err
}

// planLost returns why something cannot be written as planned.
func (pl *Quartermaster) planLost(c *cycle) *claimlog.Conflict {
	for _, podClaim := range c.claims {
		if podClaim.planned == nil {
			continue
		}
		claim := podClaim.claim.DeepCopy()
		claim.Status.Allocation = podClaim.planned
		if conflict := pl.state.Order.CheckPlan(claim); conflict != nil {
			return conflict
		}
	}
	return nil
}

// allocations are those that are planned for the pod's claims, and those that they have.
func (c *cycle) allocations() []*resourceapi.AllocationResult {
	allocations := make([]*resourceapi.AllocationResult, len(c.claims))
	for i, podClaim := range c.claims {
		if allocations[i] = podClaim.planned; podClaim.planned == nil {
			allocations[i] = podClaim.claim.Status.Allocation
		}
	}
	return allocations
}
