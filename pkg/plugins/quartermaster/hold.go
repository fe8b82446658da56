package quartermaster

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/hold"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// holdPause is the pause between two plans of holds, and partForHolds limits the time for planning to one part in partForHolds
// of one processor's time.
const (
	holdPause    = time.Second
	partForHolds = 20
)

// runHolds plans holds again and again until the context ends.
func (s *shared) runHolds(ctx context.Context) {
	pause, measured := holdPause, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		plans := false
		switch {
		case s.Leads() != nil:
		case s.Free.Len() > 0:
			plans = !s.planFirst(ctx)
		case len(s.bookings.All()) > 0, len(s.holds.Holds()) > 0: // No pod was tried yet.
			plans = s.Known(ctx) == nil
		}
		began := time.Now() // Until then it was waiting, which takes no processor.
		if plans {
			s.planHolds(ctx)
		}
		s.holds.Measure(s.Ledger, time.Since(measured))
		measured = time.Now()
		pause = max(holdPause, (partForHolds-1)*time.Since(began))
	}
}

// planFirst makes the first plan, once the bookings are known, and the devices that expressions select. Others wait for it. It returns
// false if there was one already.
func (s *shared) planFirst(ctx context.Context) bool {
	select {
	case _, isFirst := <-s.firstHolds:
		if !isFirst {
			return false
		}
	case <-ctx.Done():
		return false
	}
	defer close(s.firstHolds)
	s.bookings.Await(ctx)
	s.planned.Store(time.Now().UnixNano())
	for ctx.Err() == nil {
		pending := s.planHolds(ctx)
		if pending == nil {
			break
		}
		await(ctx, pending.Work, time.Until(time.Unix(0, s.planned.Load()).Add(hold.LongestUnplanned)))
	}
	return true
}

// await waits until work is done, or part of it, but no longer than a limit.
func await(ctx context.Context, work *selector.Work, limit time.Duration) {
	done := make(chan struct{})
	leave, underWay := work.Notify(sync.OnceFunc(func() { close(done) }))
	defer leave()
	if !underWay {
		return
	}
	select {
	case <-done:
	case <-time.After(limit):
	case <-ctx.Done():
	}
}

// planHolds replaces the holds by those of a new plan, and wakes the pods that may use what is not held any more. While an expression is
// still being evaluated, the plan has nothing for whom it selects devices: then the holds stay for up to hold.LongestUnplanned, and planHolds
// returns what it lacks.
func (s *shared) planHolds(ctx context.Context) *selector.Pending {
	s.planning.Lock() // The first attempt plans as well. An older plan must not replace a newer one.
	defer s.planning.Unlock()
	now := time.Now()
	if !s.mayHold() {
		s.holds.Replace(nil, now) // Conditions of pods may say that a former process held devices.
		return nil
	}
	world := s.holdWorldOf(ctx, now)
	plan := world.Plan(world.waiting)
	if world.pending != nil && now.Sub(time.Unix(0, s.planned.Load())) < hold.LongestUnplanned {
		return world.pending
	}
	s.planned.Store(now.UnixNano())
	freed, news := s.holds.Replace(plan, now)
	for _, h := range news {
		klog.FromContext(ctx).V(2).Info("Holding devices for what has waited for long", "holder", h.Name, "isGroup", h.Group,
			"waitsSince", h.Since, "nodes", h.NodeNames(), "expectedBegin", h.Begin)
		// The scheduler that the pod names tells of it, others that plan the same do not.
		if pod := world.first[h.Waiting]; pod != nil && s.Schedules(pod.Spec.SchedulerName) {
			// Recorders count events of one pod about the same node as one event, with the first text.
			on := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.NodeNames()[0]}}
			s.profileFor(pod).handle.EventRecorder().Eventf(pod, on, v1.EventTypeNormal, "DevicesHeld", "Scheduling", "%s", h.Announcement(s.Ledger))
		}
	}
	s.Freed(freed)
	s.bookings.Report(world.updates(plan))
	return nil
}

// mayHold reports whether there can be anything to plan: without bookings, only profiles with holds need plans.
func (s *shared) mayHold() bool {
	return len(s.bookings.All()) > 0 || len(s.holds.Holds()) > 0 || slices.ContainsFunc(s.served(), func(pl *Quartermaster) bool { return pl.args.Holds() })
}

// holdLimits returns the largest limits of all profiles.
func (s *shared) holdLimits() (limits hold.Limits) {
	for _, pl := range s.served() {
		limits.MaxHolds = max(limits.MaxHolds, int(*pl.args.MaxHolds))
		limits.Percent = max(limits.Percent, int(*pl.args.MaxHeldPercent))
		limits.PercentOfNamespace = max(limits.PercentOfNamespace, int(*pl.args.MaxHeldPercentPerNamespace))
	}
	return limits
}

// respectHolds is PreFilter's step that determines the usage which the pod must respect: of nominated pods, of holds, and of the plan
// for its group.
func (pl *Quartermaster) respectHolds(ctx context.Context, c *cycle, pod *v1.Pod) {
	members := pl.keptForMembers(c)
	if !pl.state.holdsOn.Load() {
		c.usage, c.kept = pl.nominated.UsageFor(pod, c.exempt, members...)
		return
	}
	pl.state.planFirst(ctx) // After a restart, no pod gets what is held for another.
	c.against = pl.state.holds.Against(pod, preemption.GroupOf(pod), pl.holders.Priority(pod), time.Now())
	var held []ledger.Use
	for _, h := range c.against {
		for _, own := range h.Pods {
			held = append(held, pl.nominated.Open(own.UID, h.Uses[own.UID])...)
		}
		for _, uses := range [][]ledger.Use{h.InUse, h.Briefly} {
			held = append(held, pl.nominated.Open("", uses)...) // Those whose pods have ended since the plan.
		}
		for _, use := range h.InUse {
			c.lasting = append(c.lasting, use.Claim.UID)
		}
	}
	c.usage, c.kept = pl.nominated.UsageFor(pod, c.exempt, append(members, held...)...)
	if len(held) > 0 {
		c.holds = c.against
	}
}

// heldFromSharing returns a hold that a pod would break by sharing a claim, nil if there is none: only pods that may use what is held
// have the claim, and this pod may not.
func (pl *Quartermaster) heldFromSharing(c *cycle, claim *resourceapi.ResourceClaim) *hold.Hold {
	if claim.Status.Allocation == nil || len(c.against) == 0 {
		return nil
	}
	use := pl.state.Ledger.UseOf(claim.UID)
	pods, others := pl.holders.HeldBy(use)
	if others || len(use.ReservedFor)+len(use.InFlight) == 0 {
		return nil
	}
	now := time.Now()
	for _, h := range c.against {
		keeps := func(other *v1.Pod) bool {
			return other.UID == c.needs.Pod.UID || h.BindsRunning(other, preemption.GroupOf(other), pl.holders.Priority(other), now)
		}
		if h.KeepsFrom(claim.UID, claim.Status.Allocation) && !slices.ContainsFunc(pods, keeps) {
			return h
		}
	}
	return nil
}

// heldFromGroup returns the end of the reason for a group that does not fit: whether devices are held from its pods.
func (pl *Quartermaster) heldFromGroup(pod *v1.Pod) string {
	if !pl.state.holdsOn.Load() {
		return ""
	}
	holds := pl.state.holds.Against(pod, preemption.GroupOf(pod), pl.holders.Priority(pod), time.Now())
	if len(holds) == 0 {
		return ""
	}
	return "; devices are held for " + holds[0].For(pod.Namespace) + holds[0].Until(time.Now())
}

// heldFor returns the reason for a node whose devices would suffice if they were not held, "" if they would not.
func (pl *Quartermaster) heldFor(ctx context.Context, c *cycle, task *allocator.Task, site allocator.NodeView) string {
	var by *hold.Hold
	for _, h := range c.holds {
		if slices.ContainsFunc(site.Pools, func(pool *inventory.NodePool) bool { return h.IsIn(pool.ID) }) {
			by = h
			break
		}
	}
	if by == nil {
		return ""
	}
	site.Usage, _ = pl.nominated.UsageFor(c.pod.Latest(), c.exempt)
	outcome, err := task.Check(pl.filterContext(ctx, c), site)
	if err != nil {
		return ""
	}
	defer outcome.Release()
	if !outcome.Fits() {
		return ""
	}
	return "held for " + by.For(c.pod.Latest().Namespace) + by.Until(time.Now())
}
