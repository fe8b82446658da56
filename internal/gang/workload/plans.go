package workload

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// partForPlans limits the time for planning groups again that were planned in vain, to one part in partForPlans of the scheduler's time.
	partForPlans = 10
	// shortPlan is the time below which a plan needs no rest.
	shortPlan = 100 * time.Millisecond
	// shortRest is the least time between two groups that had to wait for their plans.
	shortRest = time.Second
	// longestRest limits the time in which no group is planned again, whatever came before.
	longestRest = 5 * time.Minute
	// turnFor limits the time in which others wait for the group that was tried again: it may be gone.
	turnFor = 10 * time.Second
	// vainFor is the time after which a group counts as one that was never planned.
	vainFor = 10 * time.Minute
)

// Plans says which PodGroups are planned as a whole when they are tried: kube-scheduler tries a group that does not fit as often as its
// back-off allows, and its plan can take seconds, in which nobody else is scheduled. The zero Plans is ready for use.
type Plans struct {
	mutex sync.Mutex
	// rested is when the next group may be planned again.
	rested time.Time
	// inVain says when groups were planned in vain.
	inVain map[string]time.Time
	// waiting has the groups that were not planned.
	waiting map[string]waiting
	timer   *time.Timer
	// turn is the group that was tried again because it is its turn, at turnAt.
	turn   string
	turnAt time.Time
}

// waiting is a group that is tried again, by again, when it may be planned. again returns false if none of its pods waits any more.
type waiting struct {
	since time.Time
	again func() bool
}

// May reports whether to plan a group: for the first time, or when other pods have had their share of time. Otherwise again is called
// at that time.
func (p *Plans) May(group string, again func() bool) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	switch isFree := now.Sub(p.turnAt) > turnFor && len(p.waiting) == 0 && !now.Before(p.rested); {
	case p.turn == group:
		p.turn, p.turnAt = "", time.Time{}
		fallthrough
	case isFree, p.inVain[group].IsZero():
		delete(p.waiting, group)
		return true
	}
	since := now
	if before, found := p.waiting[group]; found {
		since = before.since
	}
	if p.waiting == nil {
		p.waiting = make(map[string]waiting)
	}
	p.waiting[group] = waiting{since, again}
	if p.timer == nil {
		p.timer = time.AfterFunc(p.rested.Sub(now), p.next)
	}
	return false
}

// Planned records how long the plan of a group took, and whether it was in vain.
func (p *Plans) Planned(group string, took time.Duration, inVain bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	if !inVain || took < shortPlan {
		delete(p.inVain, group)
		return
	}
	maps.DeleteFunc(p.inVain, func(_ string, at time.Time) bool { return now.Sub(at) > vainFor })
	if p.inVain == nil {
		p.inVain = make(map[string]time.Time)
	}
	p.inVain[group] = now
	if p.rested.Before(now) {
		p.rested = now
	}
	p.rested = p.rested.Add(partForPlans * took)
	if latest := now.Add(longestRest); p.rested.After(latest) {
		p.rested = latest
	}
}

// next has the group tried that waits for the longest time, and looks for the next one later.
func (p *Plans) next() {
	for first := p.takeFirst(false); first != nil && !first(); first = p.takeFirst(true) {
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.timer = nil
	if len(p.waiting) > 0 {
		p.timer = time.AfterFunc(max(shortRest, time.Until(p.rested)), p.next)
	}
}

// takeFirst takes the group that waits for the longest time from those that wait, nil if it is not the time for any. isGone is set if the one
// that was taken before does not wait any more.
func (p *Plans) takeFirst(isGone bool) func() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	if len(p.waiting) == 0 || now.Before(p.rested) || !isGone && now.Sub(p.turnAt) <= turnFor {
		return nil
	}
	group := slices.MinFunc(slices.Sorted(maps.Keys(p.waiting)), func(a, b string) int { return p.waiting[a].since.Compare(p.waiting[b].since) })
	first := p.waiting[group].again
	p.turn, p.turnAt = group, now
	delete(p.waiting, group)
	return first
}
