package main

import (
	"cmp"
	"math"
	"slices"
)

// A planner holds room for jobs that wait.
type planner interface {
	// hold returns the time and the place at which a job that does not fit should begin; nil if nothing is held for it.
	hold(c *cluster, a *arrived) *hold
	// fills reports whether a job may use the room that is held for another one.
	fills(c *cluster, a *arrived, h *hold) bool
}

// hold is the room that is held for a job.
type hold struct {
	of     *arrived
	begins int64
	takes  []*running
	// spare holds, by host, the room that is left for others when the hold begins.
	spare map[int]*host
}

// plan asks for a hold for a job that does not fit.
func (c *cluster) plan(a *arrived) {
	if c.planner == nil || len(c.holds) == mostHolds {
		return
	}
	if h := c.planner.hold(c, a); h != nil {
		c.holds = append(c.holds, h)
	}
}

// mostHolds is the number of bits of tried.fills.
const mostHolds = 64

// fills returns the holds that a job may use, as bits.
func (c *cluster) fills(a *arrived) (bits uint64) {
	for i, h := range c.holds {
		if c.planner.fills(c, a, h) {
			bits |= 1 << i
		}
	}
	return bits
}

// seen returns a host as a job may use it: without the room that is held for others.
func (c *cluster) seen(i int, a *arrived) *host {
	h := &c.hosts[i]
	for _, held := range c.holds {
		spare := held.spare[i]
		if spare == nil || c.planner.fills(c, a, held) {
			continue
		}
		less := *h
		less.milliCPU, less.memory = min(h.milliCPU, spare.milliCPU), min(h.memory, spare.memory)
		for g := range h.n {
			less.free[g] = max(0, min(h.free[g], spare.free[g]))
		}
		less.gpus = less.free
		slices.Sort(less.gpus[:less.n])
		h = &less
	}
	return h
}

// takeSpare subtracts the use of a pod from the room that holds leave to others, unless the pod ends before.
func (c *cluster) takeSpare(a *arrived, host int, gpus uint8) {
	for _, held := range c.holds {
		if spare := held.spare[host]; spare != nil && !c.planner.fills(c, a, held) {
			spare.change(&a.task, gpus, -1)
		}
	}
}

// reservations holds room for the first jobs of the queue, where room becomes free the soonest. With one hold and known times it
// is EASY (Lifka 1995): later jobs may use the room if they end before the hold begins, or leave enough for it.
type reservations struct {
	most  int
	after int64 // the time that a job waits before it gets a hold
	// ends returns the expected end of a pod; lasts returns the expected duration of a job.
	ends  func(now int64, r *running) int64
	lasts func(j *job) int64
}

func (p *reservations) hold(c *cluster, a *arrived) *hold {
	if len(c.holds) >= p.most || c.now-a.at < p.after {
		return nil
	}
	hosts := slices.Clone(c.hosts)
	for _, h := range c.holds {
		for _, r := range h.takes {
			hosts[r.host].change(&r.job.task, r.gpus, -1)
		}
	}
	missing, since := a.pods, make([]int, len(hosts))
	for i := range hosts {
		missing -= hosts[i].room(&a.task)
	}
	type ending struct {
		*running
		ends int64
	}
	endings := make([]ending, len(c.running))
	for i, r := range c.running {
		endings[i] = ending{r, p.ends(c.now, r)}
	}
	slices.SortStableFunc(endings, func(a, b ending) int { return cmp.Compare(a.ends, b.ends) })
	h := &hold{of: a, begins: c.now, spare: map[int]*host{}}
	for i := 0; i < len(endings) && missing > 0; i++ {
		r := &endings[i]
		on := &hosts[r.host]
		missing += on.room(&a.task)
		on.change(&r.job.task, r.gpus, 1)
		missing -= on.room(&a.task)
		h.begins, since[r.host] = r.ends, i+1
	}
	if missing > 0 {
		return nil
	}
	h.choose(hosts, since)
	return h
}

// choose takes room on the hosts that become free the soonest.
func (h *hold) choose(hosts []host, since []int) {
	order := make([]int, len(hosts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(since[a], since[b]) })
	missing := h.of.pods
	for _, i := range order {
		on := &hosts[i]
		for ; missing > 0 && on.room(&h.of.task) > 0; missing-- {
			gpus := on.pick(&h.of.task, on.fullest(&h.of.task))
			h.takes = append(h.takes, &running{job: &h.of.job, host: i, gpus: gpus})
			on.change(&h.of.task, gpus, -1)
			h.spare[i] = on
		}
	}
}

// fullest returns the GPU with the least room among those that a task can share.
func (n *node) fullest(t *task) int {
	return max(0, slices.IndexFunc(n.gpus[:n.n], func(free int16) bool { return int(free) >= t.MilliGPU }))
}

func (p *reservations) fills(c *cluster, a *arrived, h *hold) bool {
	return a == h.of || p.lasts(&a.job) <= h.begins-c.now
}

// unknownTime is longer than anything runs.
const unknownTime = math.MaxInt64

func knownEnd(_ int64, r *running) int64 { return r.ends }

func knownTime(j *job) int64 { return j.lasts }

func noTime(*job) int64 { return unknownTime }

// wrongEnd returns the first estimate until that has passed. After that it expects the pod to run for as long again as it has
// run.
func wrongEnd(now int64, r *running) int64 {
	if ends := r.began + wrongTime(r.job); ends > now {
		return ends
	}
	return endByAge(now, r)
}

// wrongTime returns a duration that is up to three times too long or too short.
func wrongTime(j *job) int64 { return max(1, int64(float64(j.lasts)*math.Pow(3, j.luck))) }

// endByAge expects the pod to run for as long again as it has run.
func endByAge(now int64, r *running) int64 { return now + max(1, now-r.began) }
