package contest

import (
	"maps"
	"sync/atomic"
	"time"
)

const (
	// pollAge is how old a view of the contest may be for those who wait; whoever has just
	// begun wants a new one. If views take longer than cheapView to make, what an earlier one
	// has seen is used for viewShare times as long, at most for a settle time, and only what
	// came since is looked at.
	pollAge   = 10 * time.Millisecond
	cheapView = time.Millisecond
	viewShare = 10
	// maxContested is how many different claims of others in a namespace are looked at. If there are
	// more, they count as such that could use any device. It is also how many pods of a namespace are
	// looked at for the sake of others, in no order: to learn whether their schedulers take part, of which
	// one is enough.
	maxContested = 100
)

// view is the contest at some moment. It does not change any more.
type view struct {
	// taken is when everything was looked at; added is when what came since was, at the same time at
	// the earliest.
	taken, added time.Time
	// cost is what it took to look at everything, as far as somebody wanted to know.
	cost *atomic.Int64
	// version is that of the contenders which are in the view.
	version uint64
	// crowds are the pods of others by their namespaces.
	crowds    map[string]*crowd
	announced *announced
}

// Look has everything looked at that has changed, as whoever settles does himself. What pods tell of
// their schedulers is learned by that.
func (c *Contest) Look() { c.view(0) }

// view returns how things are, or were no longer ago than maxAge. It may also have what was so a
// settle time ago at most, but it lacks nothing that there is (but for classes that have changed):
// whoever misses a contender hands out a device twice, and whoever sees one that is gone waits for
// nothing.
func (c *Contest) view(maxAge time.Duration) *view {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case c.latest == nil || time.Since(c.latest.taken) >= max(maxAge, c.latest.lasts(c.SettleTime())):
		c.latest = c.look()
	case time.Since(c.latest.added) >= maxAge:
		c.latest = c.lookAgain(c.latest)
	}
	return c.latest
}

// lasts returns for how long a view is good enough if what came since is added.
func (v *view) lasts(longest time.Duration) time.Duration {
	cost := time.Duration(v.cost.Load())
	if cost <= cheapView {
		return 0
	}
	return min(viewShare*cost, longest)
}

// look looks at everything. It needs the mutex.
func (c *Contest) look() *view {
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

// lookAgain adds what came since. It needs the mutex.
func (c *Contest) lookAgain(at *view) *view {
	v := *at
	v.crowds = maps.Clone(at.crowds)
	c.fill(&v)
	return &v
}

// fill adds the contenders that are not in a view.
func (c *Contest) fill(v *view) {
	v.added, v.announced = time.Now(), &announced{in: make(map[string]map[string]contested)}
	since, changed := v.version, false
	namespaces, version := c.Contenders.Namespaces(since)
	for _, namespace := range namespaces {
		some, _ := c.Contenders.List(namespace, since, maxContested)
		for _, contender := range some {
			changed = c.learn(contender.Pod) || changed
		}
	}
	if changed {
		namespaces, version = c.Contenders.Namespaces(since)
	}
	for _, namespace := range namespaces {
		v.crowds[namespace] = c.newCrowd(namespace, v.crowds[namespace], since, v)
	}
	v.version = version
}
