package foreign

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

const (
	// foreignWindow is the time after the last allocation by another scheduler during which conflicts
	// may still be settled.
	foreignWindow = time.Minute
	// allocationAge is the age from which an allocation is old: every write that is based on a view
	// from before has been made.
	allocationAge = time.Minute
	// delayFactor extends settling if other schedulers are late with their writes, as a multiple of the
	// time that a write takes them. The default scheduler writes three times for an allocation: the
	// pod's nominated node, the finalizer, the allocation. One more is a margin.
	delayFactor = 4
	// MaxSettleTimes limits settling, in settle times.
	MaxSettleTimes = 20
	// SettleSteps is the number of looks per settle time.
	SettleSteps = 25
	// unseenTimes is the time, in settle times, for which a further allocation is expected in a pool
	// after one by another scheduler, even if no pods are seen.
	unseenTimes = 2
)

// A Settling is one wait for writes of non-participating schedulers. A pod waits for those in its own
// namespace without a limit but MaxSettleTimes. It waits for those in other namespaces only for the
// time that it can spare (Registry.Spare): users who may write there must not delay it.
type Settling struct {
	watch *Watch
	pod   *v1.Pod
	begin time.Time
	// pools are the pools in which the pod's claims have new devices, as for CouldUse.
	pools map[inventory.PoolID][]string
	// contested is set if a conflict with a claim of the same namespace was possible at the beginning,
	// or exists. elsewhere is the same for other namespaces, if there is time to wait for them.
	contested, elsewhere bool
}

// Begin starts to settle for the present or planned allocations of a pod's claims: it determines whether
// they can be in conflict with what other schedulers are about to allocate. It ignores nil allocations.
func (c *Watch) Begin(pod *v1.Pod, allocations ...*resourceapi.AllocationResult) *Settling {
	s := &Settling{watch: c, pod: pod, begin: time.Now(), pools: newDevices(allocations)}
	if len(s.pools) == 0 || !c.Settles() {
		return s
	}
	s.contested, _ = c.competitionIn(pod.Namespace, s.pools, 0)
	there, elsewhere := s.unseen()
	s.contested = s.contested || there || c.isBlind()
	if s.spare() > 0 {
		s.elsewhere, _ = c.competitionElsewhere(pod.Namespace, s.pools, 0)
		s.elsewhere = s.elsewhere || elsewhere
	}
	return s
}

// newDevices returns the pools of the devices that are only planned, or were allocated recently, as for
// CouldUse: other schedulers may not know of these yet.
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
func (c *Watch) Settles() bool { return c.Cluster.SettleTime() > 0 }

// Yield records that the pod must yield to a claim of a namespace.
func (s *Settling) Yield(to string) {
	if to == s.pod.Namespace {
		s.contested = true
	} else {
		s.elsewhere = s.elsewhere || s.spare() > 0
	}
}

// Contested reports whether a conflict was possible when the wait began, or exists.
func (s *Settling) Contested() bool { return s.contested || s.elsewhere }

// unseen reports whether other schedulers are allocating devices of the pools, for claims of the pod's
// namespace or elsewhere, although no pods may have been seen: the watch of pods may be late, or they
// allocate claims that no pod waits for.
func (s *Settling) unseen() (there, elsewhere bool) {
	lately := func(at time.Time) bool { return time.Since(at) <= unseenTimes*s.watch.Cluster.SettleTime() }
	for pool := range s.pools {
		own, others := s.watch.Order.ForeignIn(pool, s.pod.Namespace)
		there, elsewhere = there || lately(own), elsewhere || lately(others)
	}
	return there, elsewhere
}

// active reports whether other schedulers are about to allocate something in the pod's namespace that
// was known when the wait began. If they are known to have decided, they are active until they have
// allocated it. If they are at work, they are active until they have been silent for as long as it may
// take them. If nothing of them was seen yet, they are active for the settle time.
func (s *Settling) active() bool {
	c := s.watch
	if !c.Settles() || len(s.pools) == 0 || !s.lasts() {
		return false
	}
	_, others := c.competitionIn(s.pod.Namespace, s.pools, pollAge)
	switch {
	case s.begun(others.decided):
		return true
	case s.begun(others.active):
		silent := min(s.quiet(), time.Since(c.Order.LastForeign(s.pod.Namespace)), time.Since(c.Competitors.Heard(s.pod.Namespace)))
		return silent < c.settlingTime(s.pod.Namespace)
	default:
		return s.begun(others.young) && s.quiet() < c.Cluster.SettleTime()
	}
}

// begun reports whether something existed already when the wait began, or may have: what a closed watch missed comes
// within a settle time after it was opened again.
func (s *Settling) begun(since time.Time) bool {
	_, opened := s.watch.opened()
	return !since.IsZero() && (!since.After(s.begin) || !since.After(opened.Add(s.watch.Cluster.SettleTime())))
}

// quiet returns for how long the wait has lasted with open watches. A closed watch is silent, however busy other schedulers
// are.
func (s *Settling) quiet() time.Duration { return min(time.Since(s.begin), s.watch.openFor()) }

// errBlind means that a pod has waited for as long as it may, and something may still be missing.
var errBlind = errors.New("asked whether another scheduler allocates the same devices but the watch of pods or of claims was closed until now; " +
	"trying again (check the connection to the API server)")

// lasts reports whether the wait may go on.
func (s *Settling) lasts() bool { return time.Since(s.begin) < s.watch.maxSettling() }

// activeElsewhere reports whether other schedulers are at work on claims of other namespaces that were
// known when the wait began, or are known to have decided about them.
func (s *Settling) activeElsewhere() bool {
	_, others := s.watch.competitionElsewhere(s.pod.Namespace, s.pools, pollAge)
	return s.begun(others.decided) || s.begun(others.active)
}

// spare returns how long the pod can wait for other namespaces. Less than a step counts as 0.
func (s *Settling) spare() time.Duration {
	if spare := s.watch.Competitors.Spare(s.pod.UID); spare >= s.watch.step() {
		return spare
	}
	return 0
}

// BeforeWrite waits as long as other schedulers are active, but not after enough returns true, which it
// calls from time to time. It returns the duration of the wait, 0 if there was nothing to wait for. It
// leaves half of the time for other namespaces to AfterWrite. It fails if a watch is closed for as long as pods may settle.
func (s *Settling) BeforeWrite(ctx context.Context, enough func() bool) (time.Duration, error) {
	left := s.spare() / 2
	elsewhere := func(waited time.Duration) time.Duration {
		if !s.elsewhere || left-waited <= 0 || !s.activeElsewhere() {
			return 0
		}
		return left - waited
	}
	blind := func() bool {
		open, _ := s.watch.opened()
		return s.contested && !open
	}
	waited, err := s.wait(ctx, func() bool { return s.active() || blind() && s.lasts() }, elsewhere, enough)
	if err == nil && blind() && !s.lasts() {
		err = errBlind
	}
	return waited, err
}

// AfterWrite waits for a settle time, and as long as other schedulers are active: they may have decided
// before they could know of the writes. It fails if a watch was closed until then. It calls look from time to time.
func (s *Settling) AfterWrite(ctx context.Context, look func()) (time.Duration, error) {
	own := func() bool {
		return s.contested && s.lasts() && (s.quiet() < s.watch.Cluster.SettleTime() || s.active())
	}
	left := s.spare()
	elsewhere := func(waited time.Duration) time.Duration {
		if !s.elsewhere {
			return 0
		}
		return min(left, s.watch.Cluster.SettleTime()) - waited
	}
	waited, err := s.wait(ctx, own, elsewhere, func() bool { look(); return false })
	if err == nil && s.contested && s.quiet() < s.watch.Cluster.SettleTime() {
		err = errBlind
	}
	return waited, err
}

// wait waits while own returns true, and then for the remaining time that elsewhere returns for the time waited
// so far. It ends early if enough returns true. Time beyond own counts as time spent on other namespaces.
func (s *Settling) wait(ctx context.Context, own func() bool, elsewhere func(time.Duration) time.Duration, enough func() bool) (time.Duration, error) {
	waited := func() time.Duration { return time.Since(s.begin) }
	for waits := false; ; waits = true {
		before, step, forOthers := waited(), s.watch.step(), false
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
			return waited(), fmt.Errorf("waiting for the allocations of other schedulers to become visible: %w", context.Cause(ctx))
		}
		if forOthers {
			s.watch.Competitors.Spend(s.pod.UID, waited()-before)
		}
		if enough() {
			return waited(), nil
		}
	}
}

// step returns the time between two looks.
func (c *Watch) step() time.Duration { return c.Cluster.SettleTime() / SettleSteps }

// settlingTime returns how long claims of a namespace must settle. The settle time is enough if other
// schedulers write soon after they decide. If they are late with their writes, writes that cannot be
// seen yet are late as well.
func (c *Watch) settlingTime(namespace string) time.Duration {
	return min(c.Cluster.SettleTime()+delayFactor*c.Order.ForeignDelay(namespace), c.maxSettling())
}

// maxSettling limits settling before claims are written, and again after that.
func (c *Watch) maxSettling() time.Duration {
	return MaxSettleTimes * c.Cluster.SettleTime()
}

// StillSettling returns how long conflicts that have just arisen may continue to be settled.
func (c *Watch) StillSettling() time.Duration {
	switch {
	case !c.Settles():
		return 0
	case c.active() || c.isBlind():
		return c.maxSettling()
	case c.Order.ForeignWithin(foreignWindow):
		return min(c.Cluster.SettleTime()+delayFactor*c.Order.LongestForeignDelay(), c.maxSettling())
	default:
		return 0
	}
}
