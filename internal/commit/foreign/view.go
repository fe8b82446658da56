package foreign

import (
	"maps"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

const (
	// pollAge is the maximum age of a view for pods that wait; a pod that has just begun needs a new
	// view. If a full look takes longer than cheapView, its view is used for viewShare times as long,
	// at most for a settle time, and only newer competitors are looked at.
	pollAge   = 10 * time.Millisecond
	cheapView = time.Millisecond
	viewShare = 10
	// maxContested limits the number of different claims of other schedulers in a namespace that are
	// looked at. Further claims count as if they could use any device. It also limits the number of
	// pods of a namespace that are looked at for other namespaces, in no order, and to learn whether
	// their schedulers take part: one pod is enough for that.
	maxContested = 100
)

// view is the competition at some moment. It does not change any more.
type view struct {
	// taken is the time when everything was looked at. added is the time when newer competitors were
	// added, at taken or later.
	taken, added time.Time
	// cost is the time in nanoseconds that it took to look at everything that was asked for so far.
	cost *atomic.Int64
	// version is the version of the competitors in the view.
	version uint64
	// crowds holds the pods of other schedulers, by namespace.
	crowds    map[string]*crowd
	announced *announced
}

// Look looks at everything that has changed, as Begin does. It thereby learns from pods whether their
// schedulers take part.
func (c *Watch) Look() { c.view(0) }

// view returns a view that is at most maxAge old. It may contain competitors that are gone for up to a
// settle time, but it lacks none (except because of changed classes): a missing competitor can make two
// claims get the same device, while one that is gone only makes a pod wait for nothing.
func (c *Watch) view(maxAge time.Duration) *view {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case c.latest == nil || time.Since(c.latest.taken) >= max(maxAge, c.latest.lasts(c.Cluster.SettleTime())):
		c.latest = c.look()
	case time.Since(c.latest.added) >= maxAge:
		c.latest = c.lookAgain(c.latest)
	}
	return c.latest
}

// lasts returns how long a view can be used if newer competitors are added.
func (v *view) lasts(longest time.Duration) time.Duration {
	cost := time.Duration(v.cost.Load())
	if cost <= cheapView {
		return 0
	}
	return min(viewShare*cost, longest)
}

// look looks at everything. The caller must hold the mutex.
func (c *Watch) look() *view {
	c.keys.rotate()
	v := &view{taken: time.Now(), cost: &atomic.Int64{}, crowds: make(map[string]*crowd)}
	c.fill(v)
	cost := c.Cost
	if cost == nil {
		cost = time.Since
	}
	v.cost.Store(int64(cost(v.taken)))
	return v
}

// lookAgain adds newer competitors to a view. The caller must hold the mutex.
func (c *Watch) lookAgain(at *view) *view {
	v := *at
	v.crowds = maps.Clone(at.crowds)
	c.fill(&v)
	return &v
}

// fill adds the competitors that are not in a view yet.
func (c *Watch) fill(v *view) {
	v.added, v.announced = time.Now(), &announced{in: make(map[string]map[string]contested)}
	since, changed := v.version, false
	namespaces, version := c.Competitors.Namespaces(since)
	for _, namespace := range namespaces {
		some, _ := c.Competitors.List(namespace, since, maxContested)
		for _, competitor := range some {
			changed = c.learn(competitor.Pod) || changed
		}
	}
	if changed {
		namespaces, version = c.Competitors.Namespaces(since)
	}
	for _, namespace := range namespaces {
		v.crowds[namespace] = c.newCrowd(namespace, v.crowds[namespace], since, v)
	}
	v.version = version
}

// learn determines from a pod whether its scheduler takes part in the protocol, by the author of an
// allocation that was written together with a reservation for this pod alone. Only schedulers may write
// that, and only the pod's own scheduler does. It reports whether this changes the competitors.
func (c *Watch) learn(pod *v1.Pod) (changed bool) {
	for name := range resourceclaim.PodClaims(pod) {
		claim := c.Cluster.Claim(pod.Namespace, name)
		if claim == nil {
			continue
		}
		if by, ours, known := c.Order.AllocatedFor(claim.UID); known && by == pod.UID {
			changed = c.Competitors.Learn(pod.Spec.SchedulerName, ours) || changed
		}
	}
	return changed
}
