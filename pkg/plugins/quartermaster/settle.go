package quartermaster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/commitorder"
)

const (
	// foreignWindow is how long after the last allocation by another scheduler claims
	// are left to settle.
	foreignWindow = time.Minute
	// delayFactor is how much longer claims settle if other schedulers are behind with
	// their writes, in times that a write takes them. The default scheduler writes three
	// times for an allocation: the pod's nominated node, the finalizer, the allocation.
	// One more is a margin.
	delayFactor = 4
	// maxSettleTimes bounds how long claims settle, in settle times.
	maxSettleTimes = 20
	// settleSteps is how often in a settle time to look again.
	settleSteps = 5
)

// mustSettle reports whether others allocate claims who do not look whether somebody
// else was faster.
func (pl *Quartermaster) mustSettle() bool {
	return pl.args.SettleTime.Duration > 0 && pl.state.order.ForeignWithin(foreignWindow)
}

// settle gives writes of others, which rest on a view older than ours, time to arrive. It
// ends before that when it is enough, which it asks from time to time.
func (pl *Quartermaster) settle(ctx context.Context, stage string, enough func() bool) error {
	begin := time.Now()
	defer metrics.observe(stage, begin)
	for {
		left := pl.settlingTime() - time.Since(begin)
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left, pl.args.SettleTime.Duration/settleSteps))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for other schedulers to show what they have allocated: %w", context.Cause(ctx))
		}
		if enough() {
			return nil
		}
	}
}

// settlingTime is for how long claims have to settle. The settle time is enough if the
// writes of others arrive soon after they were decided. If others are behind with their
// writes, those are late as well that are not to be seen yet.
func (pl *Quartermaster) settlingTime() time.Duration {
	settleTime := pl.args.SettleTime.Duration
	return min(settleTime+delayFactor*pl.state.order.ForeignDelay(), maxSettleTimes*settleTime)
}

// settlePlan lets what is planned for the pod's claims settle before it is written, and
// fails if somebody else has been allocated the same meanwhile. What is not written need
// not be given back, which matters to others: see confirm. Without others it does not
// look: our watch may be behind the informer from which the plan was made.
func (pl *Quartermaster) settlePlan(ctx context.Context, c *cycle) error {
	if !c.planned() || !pl.mustSettle() {
		return nil
	}
	var conflict *commitorder.Conflict
	if err := pl.settle(ctx, stageYield, func() bool {
		conflict = pl.planLost(c)
		return conflict != nil
	}); err != nil {
		return err
	}
	if conflict == nil {
		return nil
	}
	klog.FromContext(ctx).V(2).Info("Not allocating a claim because somebody else was allocated the same", "conflict", conflict.String())
	return fmt.Errorf("%w: %s; looking for other devices", errConflict, conflict)
}

// planLost returns why something cannot be written as planned.
func (pl *Quartermaster) planLost(c *cycle) *commitorder.Conflict {
	for _, podClaim := range c.claims {
		if podClaim.planned == nil {
			continue
		}
		claim := podClaim.claim.DeepCopy()
		claim.Status.Allocation = podClaim.planned
		if conflict := pl.state.order.CheckPlan(claim); conflict != nil {
			return conflict
		}
	}
	return nil
}

// planned reports whether a claim of the pod is to be allocated.
func (c *cycle) planned() bool {
	for _, podClaim := range c.claims {
		if podClaim.planned != nil {
			return true
		}
	}
	return false
}
