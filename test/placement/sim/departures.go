package main

import (
	"cmp"
	"slices"

	"github.com/quartermaster-dra/quartermaster/test/placement/trace"
)

// host is a node whose tasks leave again, with the state of each GPU.
type host struct {
	node
	free    [8]int16 // of each GPU, in the order of their names
	running []*running
}

// running is a pod on a host.
type running struct {
	job         *job
	host        int
	gpus        uint8 // a set
	began, ends int64
}

// put starts a pod.
func (h *host) put(r *running) {
	h.running = append(h.running, r)
	h.change(&r.job.task, r.gpus, -1)
}

// remove ends a pod.
func (h *host) remove(r *running) {
	h.running = slices.DeleteFunc(h.running, func(other *running) bool { return other == r })
	h.change(&r.job.task, r.gpus, 1)
}

// change adds the resources of a task to the free ones, or subtracts them.
func (h *host) change(t *task, gpus uint8, sign int64) {
	h.milliCPU += sign * t.MilliCPU
	h.memory += sign * t.MemoryMiB
	for g := range h.n {
		if gpus>>g&1 != 0 {
			h.free[g] += int16(sign) * int16(t.MilliGPU)
		}
	}
	h.gpus = h.free
	slices.Sort(h.gpus[:h.n])
	h.version++
}

// pick returns GPUs for a task: the first GPU with as much free capacity as the GPU of that index, or the first whole
// GPUs.
func (h *host) pick(t *task, gpu int) (gpus uint8) {
	left := t.GPUs
	for g := 0; g < h.n && left > 0; g++ {
		if t.GPUs == 1 && h.free[g] == h.gpus[gpu] || t.GPUs > 1 && h.free[g] == trace.WholeGPU {
			gpus |= 1 << g
			left--
		}
	}
	return gpus
}

// A placer chooses the host for a pod among the hosts with room, and its GPUs. The host is negative if there is no
// room.
type placer interface {
	place(c *cluster, a *arrived) (host int, gpus uint8)
	// arrives gets each job that arrives, and waiting jobs again.
	arrives(j *job, now int64)
}

// cluster holds the running pods and the waiting jobs.
type cluster struct {
	now     int64
	hosts   []host
	placer  placer
	planner planner    // nil: nothing is held
	running []*running // in the order in which they end
	waiting []*arrived // in the order in which they are tried
	holds   []*hold
	// freed holds the hosts that have gained room since the waiting jobs were tried.
	freed map[int]bool
	// again counts the waiting jobs that were reported to the placer again.
	again int
}

// arrived is a job that arrived, in one of the windows that follow each other.
type arrived struct {
	job
	counts bool
	began  int64 // negative while it waits
}

// before orders the queue as kube-scheduler does: by priority, then by arrival.
func (a *arrived) before(b *arrived) int {
	if a.low != b.low {
		if a.low {
			return 1
		}
		return -1
	}
	return cmp.Compare(a.at, b.at)
}

// play lets jobs arrive in a first window, which fills the cluster, and in a second one, which counts. It goes on
// until all jobs of the second window have begun, but not beyond a third window.
func (c *cluster) play(jobs []job) (f figures) {
	meter := newMeter(c)
	for next := 0; ; {
		at := int64(next/len(jobs))*window + jobs[next%len(jobs)].at
		if len(c.running) > 0 {
			at = min(at, c.running[0].ends)
		}
		if at >= 2*window && (at >= 3*window || !slices.ContainsFunc(c.waiting, func(a *arrived) bool { return a.counts })) {
			meter.until(2 * window)
			break
		}
		meter.until(at)
		c.now = at
		c.leave()
		for ; int64(next/len(jobs))*window+jobs[next%len(jobs)].at == at; next++ {
			a := &arrived{job: jobs[next%len(jobs)], counts: next/len(jobs) == 1, began: -1}
			a.at = at
			if a.counts {
				f.waits = append(f.waits, a)
			}
			c.arrive(a)
		}
		c.start()
	}
	meter.read(&f)
	for _, a := range f.waits {
		if a.began < 0 {
			a.began = c.now
		}
	}
	return f
}

// leave ends the pods that end now.
func (c *cluster) leave() {
	n := 0
	for ; n < len(c.running) && c.running[n].ends == c.now; n++ {
		r := c.running[n]
		c.hosts[r.host].remove(r)
		c.freed[r.host] = true
	}
	c.running = slices.Delete(c.running, 0, n)
}

func (c *cluster) arrive(a *arrived) {
	c.placer.arrives(&a.job, c.now)
	if n := len(c.waiting); n > 0 { // As in the product, waiting jobs count again: one with each arrival.
		c.again++
		c.placer.arrives(&c.waiting[c.again%n].job, c.now)
	}
	at, _ := slices.BinarySearchFunc(c.waiting, a, func(w, a *arrived) int { return cmp.Or(w.before(a), -1) })
	c.waiting = slices.Insert(c.waiting, at, a)
}

// start tries all waiting jobs in their order. A job that fits begins, although others wait before it.
func (c *cluster) start() {
	c.holds = nil
	failed := map[tried]bool{}
	started := false
	for _, a := range c.waiting {
		t := tried{a.shape, a.pods, c.fills(a)}
		if failed[t] {
			continue
		}
		if a.at < c.now && !c.mayFitNow(a) || !c.begin(a) {
			failed[t] = true
			c.plan(a)
			continue
		}
		started = true
	}
	if started {
		c.waiting = slices.DeleteFunc(c.waiting, func(a *arrived) bool { return a.began >= 0 })
	}
	clear(c.freed)
}

// tried identifies equal jobs: if one of them does not fit, none does.
type tried struct {
	shape, pods int
	fills       uint64
}

// mayFitNow reports whether a job that did not fit before may fit by now.
func (c *cluster) mayFitNow(a *arrived) bool {
	if c.planner != nil || a.pods > 1 {
		return true
	}
	for i := range c.freed {
		if c.hosts[i].room(&a.task) > 0 {
			return true
		}
	}
	return false
}

// begin starts all pods of a job, or none.
func (c *cluster) begin(a *arrived) bool {
	if a.pods > 1 {
		room := 0
		for i := range c.hosts {
			room += c.seen(i, a).room(&a.task)
		}
		if room < a.pods {
			return false
		}
	}
	for range a.pods {
		host, gpus := c.placer.place(c, a)
		if host < 0 {
			return false // The job has only this pod.
		}
		r := &running{job: &a.job, host: host, gpus: gpus, began: c.now, ends: c.now + a.lasts}
		c.hosts[host].put(r)
		at, _ := slices.BinarySearchFunc(c.running, r, func(r, other *running) int { return cmp.Or(cmp.Compare(r.ends, other.ends), -1) })
		c.running = slices.Insert(c.running, at, r)
		c.takeSpare(a, host, gpus)
	}
	a.began = c.now
	return true
}
