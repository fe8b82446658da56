package hold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// booking returns a booking of copies of some devices, for pods whose name begins with its name.
func (c *testCluster) booking(name string, priority int32, start, end time.Time, copies, size int) *Waiting {
	w := c.waiting(name, priority, epoch, copies, size)
	w.Group, w.Due = false, start
	w.Booking = &Booking{Start: start, End: end, For: func(pod *v1.Pod, _ string) bool {
		return len(pod.Name) > len(name) && pod.Name[:len(name)] == name
	}}
	return w
}

// TestBookingBinds: who must leave booked devices alone, and what the reason says.
func TestBookingBinds(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4)
	start, end := epoch.Add(time.Hour), epoch.Add(150*time.Minute)
	h := &Hold{Waiting: c.booking("b", 10, start, end, 1, 1)}
	for name, test := range map[string]struct {
		name     string
		deadline time.Duration
		priority int32
		now      time.Time
		bound    bool
	}{
		"own, before":                {name: "b-1", priority: 10, now: epoch},
		"own, meanwhile":             {name: "b-1", priority: 10, now: start},
		"after the end":              {name: "a", priority: 10, now: end},
		"own of lower priority":      {name: "b-1", priority: 1, now: start},
		"other, before":              {name: "a", priority: 10, now: epoch, bound: true},
		"gone before":                {name: "a", priority: 10, now: epoch, deadline: 59*time.Minute + 30*time.Second},
		"gone after":                 {name: "a", priority: 10, now: epoch, deadline: 59*time.Minute + 31*time.Second, bound: true},
		"short, meanwhile":           {name: "a", priority: 10, now: start, deadline: time.Second, bound: true},
		"short, just before":         {name: "a", priority: 10, now: start.Add(-time.Second), deadline: time.Second, bound: true},
		"lower priority":             {name: "a", priority: 1, now: start, bound: true},
		"higher priority":            {name: "a", priority: 11, now: epoch},
		"higher priority, meanwhile": {name: "a", priority: 11, now: start},
	} {
		require.Equal(t, test.bound, h.Binds(newJob(test.name, 1, 0, test.deadline).Pod, "", test.priority, test.now), name)
	}
	require.Equal(t, "booking ns/b until about 14:30 UTC", h.For("ns")+h.Until(epoch))
	require.Equal(t, " until about 2026-01-01 14:30 UTC", h.Until(end.Add(-25*time.Hour)), "more than a day before")
	require.Equal(t, "a booking of another namespace", h.For("other"))
}

// TestBookingFits: with known ends, a booking has all its devices at its start if and only if brute force says that they are free
// then. Otherwise the plan says that some are late.
func TestBookingFits(t *testing.T) {
	t.Parallel()
	inTime, late := 0, 0
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		c.fill(random, 1)
		copies, size := 1+random.IntN(3), 1+random.IntN(4)
		start := c.now.Add(time.Duration(random.IntN(40)) * time.Minute)
		holds := c.world(noLimits, random).Plan([]*Waiting{c.booking("b", 0, start, start.Add(time.Hour), copies, size)})
		fits := 0
		for node, all := range c.sizes {
			for _, j := range c.jobs {
				if j.node == node && endOf(j.Pod, 0, c.now).At.After(start) {
					all -= j.size
				}
			}
			fits += all / size
		}
		if fits >= copies {
			inTime++
			require.Len(t, holds, 1)
			require.Zero(t, holds[0].Late)
		} else if len(holds) == 1 {
			late++
			require.Positive(t, holds[0].Late)
		}
	})
	require.Positive(t, inTime)
	require.Positive(t, late)
}

// TestBookingWorlds: in a stream of pods, no pod that a booking is not for has its devices once it has started, also if pods with a deadline
// used them before. Pods of higher priority start as if there was no booking.
func TestBookingWorlds(t *testing.T) {
	t.Parallel()
	filled, refused, started, ahead := 0, 0, 0, 0
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		c.fill(random, 1)
		start := c.now.Add(time.Duration(70+random.IntN(20)) * time.Minute) // All that runs now is gone by then.
		copies, size := 1+random.IntN(2), 1+random.IntN(4)
		b := c.booking("b", 0, start, start.Add(30*time.Minute), copies, size)
		waiting := []*Waiting{b, c.waiting("other", 0, epoch.Add(time.Minute), 1, 1+random.IntN(4))}
		for minute := 0; c.now.Before(b.Booking.End); minute += 5 {
			holds := c.world(noLimits, random).Plan(waiting)
			if minute == 0 && b.Refusal.Reason == CannotFit {
				return
			}
			require.Same(t, b, holds[0].Waiting)
			require.Zero(t, holds[0].Late, "minute %d", minute)
			if !c.now.Before(start) {
				started++
				require.True(t, holds[0].Ready, "minute %d: all devices are free for its pods", minute)
			}
			for i := range 4 {
				runs := time.Duration(1+random.IntN(60)) * time.Minute
				j := newJob(fmt.Sprintf("new-%02d-%d", minute, i), 1+random.IntN(2), runs, time.Duration(random.IntN(2))*runs)
				kept, bound := against(holds, j, c.now)
				if c.start(j, c.usage(kept...)) {
					if !bound {
						filled++
					}
					continue
				}
				refused++
				if j.priority = 1; len(c.free("node-0", c.usage())) >= j.size {
					ahead++
					require.True(t, c.start(j, c.usage(mustBeNone(against(holds, j, c.now))...)))
					delete(c.jobs, j.UID) // Its booking would be late, rightly.
				}
			}
			c.pass(5 * time.Minute)
		}
	})
	for _, n := range []int{filled, refused, started, ahead} {
		require.Positive(t, n)
	}
}

// TestBookingInUse: when pods of a booking end, nobody else gets their devices, also before the next plan: at any time there is room for all
// copies beside the pods of others.
func TestBookingInUse(t *testing.T) {
	t.Parallel()
	ended, refused := 0, 0
	forRandom(t, func(t *testing.T, random *rand.Rand) {
		c := randomCluster(random)
		copies, size := 1+random.IntN(3), 1+random.IntN(3)
		for minute := range 20 {
			var own []ledger.Use
			for uid, j := range c.jobs {
				if j.priority == 0 && j.Name[0] == 'b' && len(own) < copies {
					own = append(own, useOf(uid, j.node, j.devices))
				}
			}
			b := c.booking("b", 0, epoch, epoch.Add(time.Hour), copies-len(own), size)
			b.InUse = own
			holds := c.world(noLimits, random).Plan([]*Waiting{b})
			if minute == 0 && len(holds) == 0 {
				return // It fits in no cluster.
			}
			require.Len(t, holds, 1)
			require.Len(t, holds[0].Uses, copies-len(own))
			if random.IntN(2) == 0 {
				c.start(newJob(fmt.Sprintf("b-%d", minute), size, time.Duration(1+random.IntN(4))*time.Minute, 0), c.usage())
			}
			before := len(c.jobs)
			c.pass(time.Minute)
			ended += before - len(c.jobs)
			for i := range 3 {
				j := newJob(fmt.Sprintf("new-%d-%d", minute, i), 1+random.IntN(2), time.Duration(1+random.IntN(9))*time.Minute, 0)
				kept := holds[0].All()
				for _, use := range holds[0].InUse {
					if c.jobs[use.Claim.UID] == nil {
						kept = append(kept, use)
					}
				}
				if !c.start(j, c.usage(kept...)) {
					refused++
				}
			}
			room := 0
			for node, all := range c.sizes {
				for _, j := range c.jobs {
					if j.node == node && j.Name[0] != 'b' {
						all -= j.size
					}
				}
				room += all / size
			}
			require.GreaterOrEqual(t, room, copies, "minute %d", minute)
		}
	})
	require.Positive(t, ended)
	require.Positive(t, refused)
}

// mustBeNone returns what holds keep from a pod that none binds.
func mustBeNone(uses []ledger.Use, bound bool) []ledger.Use {
	if bound {
		panic("a pod of higher priority is bound by a booking")
	}
	return uses
}

// TestBookingLimits: bookings have a number of their own beside holds, and share the limits of devices with them. The refusal says which.
func TestBookingLimits(t *testing.T) {
	t.Parallel()
	c, random := newTestCluster(4, 4), rand.New(rand.NewPCG(1, 1))
	at := func(name string, size int) *Waiting {
		return c.booking(name, 0, epoch.Add(time.Hour), epoch.Add(2*time.Hour), 1, size)
	}
	plan := func(limits Limits, waiting ...*Waiting) (names []string) {
		for _, h := range c.world(limits, random).Plan(waiting) {
			names = append(names, h.Name)
		}
		return names
	}
	a, b, large, huge := at("a", 1), at("b", 1), at("c", 4), at("d", 5)
	one := Limits{MaxHolds: 1, Percent: 100, PercentOfNamespace: 100}
	require.Equal(t, []string{"ns/a", "ns/w"}, plan(one, a, b, c.waiting("w", 0, epoch, 1, 1)))
	require.Equal(t, TooMany, b.Refusal.Reason)
	require.Equal(t, []string{"ns/a"}, plan(Limits{MaxHolds: 9, Percent: 50, PercentOfNamespace: 50}, a, large, huge))
	require.Equal(t, Refusal{ExceedsLimit, "4 devices of class gpu are more than may be held beside the other holds: 50% of 8 devices; 50% for one namespace"}, large.Refusal)
	require.Equal(t, CannotFit, huge.Refusal.Reason)
	require.Empty(t, plan(Limits{Percent: 100, PercentOfNamespace: 100}, a))
}

// TestBookingPrefersEnds: devices in use by pods with a known end before the start come before those of pods without one. After an hour, a
// booking does not rely on pods that end only when they are deleted.
func TestBookingPrefersEnds(t *testing.T) {
	t.Parallel()
	c, random := newTestCluster(1, 1), rand.New(rand.NewPCG(1, 1))
	serves := newJob("serves", 1, time.Hour, 0)
	serves.Spec.RestartPolicy = v1.RestartPolicyAlways
	c.put(serves, "node-0", "gpu-00")
	c.put(newJob("ends", 1, 2*time.Hour, 2*time.Hour), "node-1", "gpu-00")
	plan := func(after time.Duration) *Hold {
		b := c.booking("b", 0, epoch.Add(after), epoch.Add(9*time.Hour), 1, 1)
		if holds := c.world(noLimits, random).Plan([]*Waiting{b}); len(holds) == 1 {
			return holds[0]
		}
		return nil
	}
	require.Equal(t, []string{"node-1"}, plan(3*time.Hour).NodeNames())
	require.Zero(t, plan(3*time.Hour).Late)
	require.Equal(t, 1, plan(time.Hour).Late, "the pod ends after the start")
	delete(c.jobs, "ends")
	c.put(newJob("longer", 1, 99*time.Hour, 0), "node-1", "gpu-00")
	c.jobs["longer"].Spec.RestartPolicy = v1.RestartPolicyAlways
	require.Equal(t, 1, plan(3*time.Hour).Late)
	c.now = epoch.Add(servingFor + time.Second)
	require.Nil(t, plan(0))
}

// TestBookingInUseLimits: devices in use count in the limits and are kept as far as they fit, from the start on. An earlier holder of higher
// priority gets them first.
func TestBookingInUseLimits(t *testing.T) {
	t.Parallel()
	c, random := newTestCluster(8), rand.New(rand.NewPCG(1, 1))
	var own []ledger.Use
	for i := range 3 {
		j := newJob(fmt.Sprintf("b-%d", i), 2, time.Hour, 0)
		c.put(j, "node-0", fmt.Sprintf("gpu-%02d", 2*i), fmt.Sprintf("gpu-%02d", 2*i+1))
		own = append(own, useOf(j.UID, j.node, j.devices))
	}
	for name, test := range map[string]struct {
		start        time.Duration
		limits       Limits
		copies, kept int
		refusal      string
	}{
		"all fit":            {limits: noLimits, kept: 3},
		"before the start":   {start: time.Hour, limits: noLimits},
		"half":               {limits: Limits{MaxHolds: 9, Percent: 50, PercentOfNamespace: 50}, kept: 2, refusal: ExceedsLimit},
		"none":               {limits: Limits{Percent: 100, PercentOfNamespace: 100}, refusal: TooMany},
		"a copy beside them": {limits: Limits{MaxHolds: 1, Percent: 100, PercentOfNamespace: 100}, copies: 1, kept: 3},
		"no more beside":     {limits: Limits{MaxHolds: 1, Percent: 75, PercentOfNamespace: 75}, copies: 1, kept: 3, refusal: ExceedsLimit},
	} {
		b := c.booking("b", 0, epoch.Add(test.start), epoch.Add(9*time.Hour), test.copies, 2)
		b.InUse = own
		other := c.booking("other", 0, epoch.Add(test.start), epoch.Add(9*time.Hour), 1, 1)
		other.Since = epoch.Add(time.Second)
		holds := c.world(test.limits, random).Plan([]*Waiting{other, b})
		require.Len(t, b.InUse, test.kept, name)
		require.Equal(t, test.refusal, b.Refusal.Reason, name)
		for _, h := range holds {
			if h.Waiting == b {
				require.Equal(t, 2*(test.kept+len(h.Uses)), h.devices["gpu"], name)
			}
		}
		if test.limits.MaxHolds == 1 {
			require.Equal(t, TooMany, other.Refusal.Reason, name)
		}
	}
}

// TestBookingPodsEnd: who may wait for the devices that pods of a booking have.
func TestBookingPodsEnd(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for name, test := range map[string]struct {
		start    time.Duration
		priority int32
		percent  int
		own      bool
		// tried is set if the hold stays because a pod of the booking is just being tried.
		tried, waits bool
	}{
		"same priority":       {percent: 200, priority: 5},
		"lower priority":      {percent: 200},
		"higher priority":     {percent: 200, priority: 6, waits: true},
		"higher and tried":    {percent: 200, priority: 6, tried: true, waits: true},
		"same and tried":      {percent: 200, priority: 5, tried: true},
		"own pod":             {percent: 200, priority: 5, own: true, waits: true},
		"not started":         {percent: 200, priority: 5, start: time.Hour, waits: true},
		"booking is not kept": {percent: 50, priority: 5, waits: true},
	} {
		c := newTestCluster(2)
		c.put(newJob("b-0", 2, time.Hour, 0), "node-0", "gpu-00", "gpu-01")
		b := c.booking("b", 5, epoch.Add(test.start), epoch.Add(9*time.Hour), 0, 2)
		b.Booking.UID, b.InUse, b.Since = "b", []ledger.Use{useOf("b-0", "node-0", c.jobs["b-0"].devices)}, epoch.Add(time.Hour)
		w := c.waiting("w", test.priority, epoch, 1, 1)
		if test.own {
			w.For = append(w.For, "b")
		}
		world, all := c.world(Limits{MaxHolds: 9, Percent: test.percent, PercentOfNamespace: test.percent}, random), []*Waiting{w, b}
		if test.tried {
			world.Tried, all = []Tried{{Hold: c.world(noLimits, random).Plan([]*Waiting{b})[0]}}, all[:1]
		}
		holds := world.Plan(all)
		waits := slices.ContainsFunc(holds, func(h *Hold) bool { return h.Waiting == w })
		require.Equal(t, test.waits, waits, "%s: %v", name, w.Refusal)
		if name == "higher priority" {
			require.Empty(t, b.InUse, "they are held for only one")
		}
	}
}

// TestBookingEdited: once a booking is edited, or its priority changes, pods that wait may use what is held for it, and are woken.
func TestBookingEdited(t *testing.T) {
	t.Parallel()
	c := newTestCluster(4)
	for name, test := range map[string]struct {
		edit  func(*Waiting)
		freed bool
	}{
		"nothing":    {func(*Waiting) {}, false},
		"generation": {func(w *Waiting) { w.Booking.Generation++ }, true},
		"priority":   {func(w *Waiting) { w.Priority-- }, true},
		"start":      {func(w *Waiting) { w.Booking.Start = w.Booking.Start.Add(time.Second) }, true},
		"end":        {func(w *Waiting) { w.Booking.End = w.Booking.End.Add(-time.Second) }, true},
		"another":    {func(w *Waiting) { w.Booking.UID = "other" }, true},
	} {
		r, end := NewRegistry(), epoch.Add(time.Hour)
		freed, _ := r.Replace([]*Hold{holdOn(c.booking("b", 0, epoch, end, 1, 1), "node-0", "gpu-00")}, epoch)
		require.Empty(t, freed)
		after := c.booking("b", 0, epoch, end, 1, 1)
		test.edit(after)
		freed, _ = r.Replace([]*Hold{holdOn(after, "node-0", "gpu-00")}, epoch)
		require.Equal(t, test.freed, len(freed) > 0, name)
	}
}
