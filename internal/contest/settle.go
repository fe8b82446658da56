package contest

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
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

// Settling is one wait for what non-participating schedulers write. Without a bound but MaxSettleTimes,
// a pod waits only for what they have to do with its own namespace. What is in other namespaces it
// waits for as well, but only for the time that it can spare (contenders.Registry.Spare): who may
// write there shall not hold it up.
type Settling struct {
	contest *Contest
	pod     *v1.Pod
	begin   time.Time
	// pools are those in which the pod's claims have devices, as CouldUse takes them.
	pools map[inventory.PoolID][]string
	// contested is whether a conflict with a claim of the same namespace was possible at the beginning,
	// or there is one, and elsewhere, the same with one of another namespace for which there is time to wait.
	contested, elsewhere bool
}

// Begin begins to settle for allocations that a pod's claims have, or shall have: it looks whether
// they can be in conflict with what others are about to allocate. Those that are nil do not count.
func (c *Contest) Begin(pod *v1.Pod, allocations ...*resourceapi.AllocationResult) *Settling {
	s := &Settling{contest: c, pod: pod, begin: time.Now(), pools: newDevices(allocations)}
	if len(s.pools) == 0 || !c.Settles() {
		return s
	}
	s.contested, _ = c.competitionIn(pod.Namespace, s.pools, 0)
	there, elsewhere := s.unseen()
	s.contested = s.contested || there
	if s.spare() > 0 {
		s.elsewhere, _ = c.competitionElsewhere(pod.Namespace, s.pools, 0)
		s.elsewhere = s.elsewhere || elsewhere
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

// Yield tells that the pod has to yield to a claim of a namespace.
func (s *Settling) Yield(to string) {
	if to == s.pod.Namespace {
		s.contested = true
	} else {
		s.elsewhere = s.elsewhere || s.spare() > 0
	}
}

// Contested reports whether a conflict was possible when the wait began, or there is one.
func (s *Settling) Contested() bool { return s.contested || s.elsewhere }

// unseen reports whether others are allocating devices of the pools, for claims of the pod's namespace
// or elsewhere, although there was perhaps nothing to see before that: our watch of pods is late, or
// they allocate claims that no pod waits for.
func (s *Settling) unseen() (there, elsewhere bool) {
	lately := func(at time.Time) bool { return time.Since(at) <= unseenTimes*s.contest.SettleTime() }
	for pool := range s.pools {
		own, others := s.contest.Order.ForeignIn(pool, s.pod.Namespace)
		there, elsewhere = there || lately(own), elsewhere || lately(others)
	}
	return there, elsewhere
}

// active reports whether others are about to allocate something in the pod's namespace that was to be
// seen when the wait began. If they are known to have decided, that is so until it is allocated. If
// they get on with what they have, until they have been silent for as long as it may take them;
// and if nothing was to be seen of them yet, for the settle time.
func (s *Settling) active() bool {
	c, waited := s.contest, time.Since(s.begin)
	if !c.Settles() || len(s.pools) == 0 || waited >= c.maxSettling() {
		return false
	}
	_, others := c.competitionIn(s.pod.Namespace, s.pools, pollAge)
	switch {
	case s.begun(others.decided):
		return true
	case s.begun(others.active):
		silent := min(waited, time.Since(c.Order.LastForeign(s.pod.Namespace)), time.Since(c.Contenders.Heard(s.pod.Namespace)))
		return silent < c.settlingTime(s.pod.Namespace)
	default:
		return s.begun(others.young) && waited < c.SettleTime()
	}
}

// begun reports whether something was there when the wait began.
func (s *Settling) begun(since time.Time) bool { return !since.IsZero() && !since.After(s.begin) }

// activeElsewhere reports whether others are known to have decided about claims of other namespaces
// that were to be seen when the wait began, or get on with them.
func (s *Settling) activeElsewhere() bool {
	_, others := s.contest.competitionElsewhere(s.pod.Namespace, s.pools, pollAge)
	return s.begun(others.decided) || s.begun(others.active)
}

// spare is for how long the pod can wait for other namespaces. What is less than a step is not worth it.
func (s *Settling) spare() time.Duration {
	if spare := s.contest.Contenders.Spare(s.pod.UID); spare >= s.contest.step() {
		return spare
	}
	return 0
}

// BeforeWrite waits as long as others are active. It ends before that when it is enough, which it
// asks from time to time. It returns how long that took, which is 0 if there was nothing to wait
// for. Of the time that is there for other namespaces, half is left for AfterWrite.
func (s *Settling) BeforeWrite(ctx context.Context, enough func() bool) (time.Duration, error) {
	left := s.spare() / 2
	elsewhere := func(waited time.Duration) time.Duration {
		if !s.elsewhere || left-waited <= 0 || !s.activeElsewhere() {
			return 0
		}
		return left - waited
	}
	return s.wait(ctx, s.active, elsewhere, enough)
}

// AfterWrite waits for a settle time, and as long as others are active. Others may have decided
// before they could know of what was written. From time to time it calls look.
func (s *Settling) AfterWrite(ctx context.Context, look func()) (time.Duration, error) {
	own := func() bool {
		return s.contested && (time.Since(s.begin) < s.contest.SettleTime() || s.active())
	}
	left := s.spare()
	elsewhere := func(waited time.Duration) time.Duration {
		if !s.elsewhere {
			return 0
		}
		return min(left, s.contest.SettleTime()) - waited
	}
	return s.wait(ctx, own, elsewhere, func() bool { look(); return false })
}

// wait waits as long as own says, then for what elsewhere says that is left, given how long the pod
// has waited already, and until it is enough. What comes on top of own is on account of others.
func (s *Settling) wait(ctx context.Context, own func() bool, elsewhere func(time.Duration) time.Duration, enough func() bool) (time.Duration, error) {
	waited := func() time.Duration { return time.Since(s.begin) }
	for waits := false; ; waits = true {
		before, step, forOthers := waited(), s.contest.step(), false
		if !own() {
			left := elsewhere(before)
			switch {
			case left <= 0 && waits:
				return waited(), nil
			case left <= 0:
				return 0, nil
			}
			step, forOthers = min(step, left), true
		}
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return waited(), fmt.Errorf("waiting for other schedulers to show what they have allocated: %w", context.Cause(ctx))
		}
		if forOthers {
			s.contest.Contenders.Spend(s.pod.UID, waited()-before)
		}
		if enough() {
			return waited(), nil
		}
	}
}

// step is after what time to look again.
func (c *Contest) step() time.Duration { return c.SettleTime() / SettleSteps }

// settlingTime is for how long claims of a namespace have to settle. The settle time is enough if the
// writes of others arrive soon after they were decided. If others are behind with their
// writes, those are late as well that are not to be seen yet.
func (c *Contest) settlingTime(namespace string) time.Duration {
	return min(c.SettleTime()+delayFactor*c.Order.ForeignDelay(namespace), c.maxSettling())
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
		return min(c.SettleTime()+delayFactor*c.Order.LongestForeignDelay(), c.maxSettling())
	default:
		return 0
	}
}
