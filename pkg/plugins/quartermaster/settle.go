package quartermaster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

const (
	// foreignWindow is how long after the last allocation by another scheduler conflicts may
	// still be settled.
	foreignWindow = time.Minute
	// allocationAge is from when on an allocation is old: whoever was to write something that
	// rests on a view from before has done so.
	allocationAge = time.Minute
	// delayFactor is how much longer claims settle if other schedulers are behind with
	// their writes, in times that a write takes them. The default scheduler writes three
	// times for an allocation: the pod's nominated node, the finalizer, the allocation.
	// One more is a margin.
	delayFactor = 4
	// maxSettleTimes bounds how long claims settle, in settle times.
	maxSettleTimes = 20
	// settleSteps is how often in a settle time to look again.
	settleSteps = 25
	// unseenTimes is for how many settle times after an allocation by somebody else in a
	// pool another one is to be expected there, whatever pods are to be seen.
	unseenTimes = 2
)

// settling is one wait for what non-participating schedulers write.
type settling struct {
	pl    *Quartermaster
	begin time.Time
	// pools are those in which the pod's claims have devices, as CouldUse takes them.
	pools map[inventory.PoolID][]string
	// contested is whether a conflict was possible at the beginning.
	contested bool
}

// newSettling looks whether what the pod's claims have, or shall have, can be in conflict
// with what others are about to allocate.
func (pl *Quartermaster) newSettling(c *cycle) *settling {
	s := &settling{pl: pl, begin: time.Now(), pools: c.newDevices()}
	if len(s.pools) > 0 && pl.settles() {
		s.contested, _ = pl.contest.competitionFor(s.pools, 0)
		s.contested = s.contested || s.unseen()
	}
	return s
}

// settles reports whether claims settle at all.
func (pl *Quartermaster) settles() bool { return pl.args.SettleTime.Duration > 0 }

// unseen reports whether others are allocating devices of the pools although there was
// perhaps nothing to see before that: our watch of pods is late, or they allocate claims
// that no pod waits for.
func (s *settling) unseen() bool {
	for pool := range s.pools {
		if last := s.pl.state.Order.ForeignIn(pool); time.Since(last) <= unseenTimes*s.pl.args.SettleTime.Duration {
			return true
		}
	}
	return false
}

// active reports whether others are about to allocate something that was to be seen when
// the wait began. If they are known to have decided, that is so until it is allocated. If they
// get on with what they have, until they have been silent for as long as it may take them;
// and if nothing was to be seen of them yet, for the settle time.
func (s *settling) active() bool {
	waited := time.Since(s.begin)
	if !s.pl.settles() || len(s.pools) == 0 || waited >= s.pl.maxSettling() {
		return false
	}
	_, others := s.pl.contest.competitionFor(s.pools, pollAge)
	begun := func(since time.Time) bool { return !since.IsZero() && !since.After(s.begin) }
	switch {
	case begun(others.decided):
		return true
	case begun(others.active):
		silent := min(waited, time.Since(s.pl.state.Order.LastForeign()), time.Since(s.pl.state.contenders.Heard()))
		return silent < s.pl.settlingTime()
	default:
		return begun(others.young) && waited < s.pl.args.SettleTime.Duration
	}
}

// wait lasts as long as others are active, and at least for the given time. It ends before
// that when it is enough, which it asks from time to time.
func (s *settling) wait(ctx context.Context, stage string, atLeast time.Duration, enough func() bool) error {
	if !s.active() && atLeast == 0 {
		return nil
	}
	defer metrics.observe(stage, s.begin)
	for time.Since(s.begin) < atLeast || s.active() {
		timer := time.NewTimer(s.pl.args.SettleTime.Duration / settleSteps)
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
	return nil
}

// settlingTime is for how long claims have to settle. The settle time is enough if the
// writes of others arrive soon after they were decided. If others are behind with their
// writes, those are late as well that are not to be seen yet.
func (pl *Quartermaster) settlingTime() time.Duration {
	return min(pl.args.SettleTime.Duration+delayFactor*pl.state.Order.ForeignDelay(), pl.maxSettling())
}

// maxSettling is for how long claims settle at most, before they are written and again after
// that.
func (pl *Quartermaster) maxSettling() time.Duration {
	return maxSettleTimes * pl.args.SettleTime.Duration
}

// stillSettling is for how long conflicts that have arisen just now may go on to be settled.
func (pl *Quartermaster) stillSettling() time.Duration {
	switch {
	case !pl.settles():
		return 0
	case pl.contest.active():
		return pl.maxSettling()
	case pl.state.Order.ForeignWithin(foreignWindow):
		return pl.settlingTime()
	default:
		return 0
	}
}

// settlePlan waits before the pod's claims are written, as long as others are busy with
// allocations, and fails if somebody else has been allocated the same meanwhile. What is
// not written need not be released, which matters to others: when the first of two claims
// lets go of a device, the default scheduler takes it for free. Without others it does not
// look: our watch may be behind the informer from which the plan was made.
func (pl *Quartermaster) settlePlan(ctx context.Context, c *cycle) error {
	var conflict *claimlog.Conflict
	if err := pl.newSettling(c).wait(ctx, stagePreWriteSettle, 0, func() bool {
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

// settle waits after the pod's claims were written, once: others may have decided before they
// could know of that, which takes them the settle time at most, or as long as they are busy.
// It returns the claims that are lost by then, those included that were lost already.
func (pl *Quartermaster) settle(ctx context.Context, c *cycle, lost []lostClaim) ([]lostClaim, error) {
	s := pl.newSettling(c)
	if !s.contested && len(lost) == 0 {
		return nil, nil
	}
	err := s.wait(ctx, stagePostWriteSettle, pl.args.SettleTime.Duration, func() bool {
		lost = addLost(lost, pl.lost(c, true))
		return false
	})
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

// newDevices returns the pools of the devices that are planned for the pod's claims, or were
// allocated not long ago, as CouldUse takes them: others may not know of these yet.
func (c *cycle) newDevices() map[inventory.PoolID][]string {
	pools := make(map[inventory.PoolID][]string)
	for _, podClaim := range c.claims {
		allocation := podClaim.planned
		if allocation == nil {
			allocation = podClaim.claim.Status.Allocation
		}
		if allocation == nil || allocation.AllocationTimestamp != nil && time.Since(allocation.AllocationTimestamp.Time) > allocationAge {
			continue
		}
		for i := range allocation.Devices.Results {
			result := &allocation.Devices.Results[i]
			pools[inventory.PoolID{Driver: result.Driver, Name: result.Pool}] = nil
		}
	}
	return pools
}
