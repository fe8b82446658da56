package contest

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"

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
	// MaxSettleTimes bounds how long claims settle, in settle times.
	MaxSettleTimes = 20
	// SettleSteps is how often in a settle time to look again.
	SettleSteps = 25
	// unseenTimes is for how many settle times after an allocation by somebody else in a
	// pool another one is to be expected there, whatever pods are to be seen.
	unseenTimes = 2
)

// Settling is one wait for what non-participating schedulers write.
type Settling struct {
	contest *Contest
	begin   time.Time
	// pools are those in which the pod's claims have devices, as CouldUse takes them.
	pools map[inventory.PoolID][]string
	// contested is whether a conflict was possible at the beginning.
	contested bool
}

// Begin begins to settle for allocations that a pod's claims have, or shall have: it looks whether
// they can be in conflict with what others are about to allocate. Those that are nil do not count.
func (c *Contest) Begin(allocations ...*resourceapi.AllocationResult) *Settling {
	s := &Settling{contest: c, begin: time.Now(), pools: newDevices(allocations)}
	if len(s.pools) > 0 && c.Settles() {
		s.contested, _ = c.competitionFor(s.pools, 0)
		s.contested = s.contested || s.unseen()
	}
	return s
}

// newDevices returns the pools of the devices that are only planned, or were allocated not long
// ago, as CouldUse takes them: others may not know of these yet.
func newDevices(allocations []*resourceapi.AllocationResult) map[inventory.PoolID][]string {
	pools := make(map[inventory.PoolID][]string)
	for _, allocation := range allocations {
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

// Settles reports whether claims settle at all.
func (c *Contest) Settles() bool { return c.SettleTime() > 0 }

// Contested reports whether a conflict was possible when the wait began.
func (s *Settling) Contested() bool { return s.contested }

// unseen reports whether others are allocating devices of the pools although there was
// perhaps nothing to see before that: our watch of pods is late, or they allocate claims
// that no pod waits for.
func (s *Settling) unseen() bool {
	for pool := range s.pools {
		if last := s.contest.Order.ForeignIn(pool); time.Since(last) <= unseenTimes*s.contest.SettleTime() {
			return true
		}
	}
	return false
}

// active reports whether others are about to allocate something that was to be seen when
// the wait began. If they are known to have decided, that is so until it is allocated. If they
// get on with what they have, until they have been silent for as long as it may take them;
// and if nothing was to be seen of them yet, for the settle time.
func (s *Settling) active() bool {
	c, waited := s.contest, time.Since(s.begin)
	if !c.Settles() || len(s.pools) == 0 || waited >= c.maxSettling() {
		return false
	}
	_, others := c.competitionFor(s.pools, pollAge)
	begun := func(since time.Time) bool { return !since.IsZero() && !since.After(s.begin) }
	switch {
	case begun(others.decided):
		return true
	case begun(others.active):
		silent := min(waited, time.Since(c.Order.LastForeign()), time.Since(c.Contenders.Heard()))
		return silent < c.settlingTime()
	default:
		return begun(others.young) && waited < c.SettleTime()
	}
}

// BeforeWrite waits as long as others are active. It ends before that when it is enough, which it
// asks from time to time. It returns how long that took, which is 0 if there was nothing to wait
// for.
func (s *Settling) BeforeWrite(ctx context.Context, enough func() bool) (time.Duration, error) {
	if !s.active() {
		return 0, nil
	}
	return s.wait(ctx, 0, enough)
}

// AfterWrite waits for a settle time, and as long as others are active. Others may have decided
// before they could know of what was written. From time to time it calls look.
func (s *Settling) AfterWrite(ctx context.Context, look func()) (time.Duration, error) {
	return s.wait(ctx, s.contest.SettleTime(), func() bool { look(); return false })
}

func (s *Settling) wait(ctx context.Context, atLeast time.Duration, enough func() bool) (time.Duration, error) {
	for time.Since(s.begin) < atLeast || s.active() {
		timer := time.NewTimer(s.contest.SettleTime() / SettleSteps)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return time.Since(s.begin), fmt.Errorf("waiting for other schedulers to show what they have allocated: %w", context.Cause(ctx))
		}
		if enough() {
			break
		}
	}
	return time.Since(s.begin), nil
}

// settlingTime is for how long claims have to settle. The settle time is enough if the
// writes of others arrive soon after they were decided. If others are behind with their
// writes, those are late as well that are not to be seen yet.
func (c *Contest) settlingTime() time.Duration {
	return min(c.SettleTime()+delayFactor*c.Order.ForeignDelay(), c.maxSettling())
}

// maxSettling is for how long claims settle at most, before they are written and again after
// that.
func (c *Contest) maxSettling() time.Duration {
	return MaxSettleTimes * c.SettleTime()
}

// StillSettling is for how long conflicts that have arisen just now may go on to be settled.
func (c *Contest) StillSettling() time.Duration {
	switch {
	case !c.Settles():
		return 0
	case c.active():
		return c.maxSettling()
	case c.Order.ForeignWithin(foreignWindow):
		return c.settlingTime()
	default:
		return 0
	}
}
