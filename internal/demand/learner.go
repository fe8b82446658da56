// Package demand learns which requests for devices are likely to come, from the pods that were seen.
package demand

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// Learner is what all profiles of a scheduler learn together. It is safe for concurrent use.
type Learner struct {
	clock clock.PassiveClock

	mutex     sync.Mutex
	histogram *placement.Histogram
	seeded    bool
	seen      int
}

// New makes a Learner that knows nothing yet.
func New(clock clock.PassiveClock) *Learner {
	return &Learner{clock: clock, histogram: placement.NewHistogram(placement.Options{})}
}

// Saw takes a pod into account, which asks for devices. Whoever calls it does so once for each pod,
// however often that is tried.
func (l *Learner) Saw(pod *v1.Pod, asks []placement.Ask) { l.add(pod, asks, l.clock.Now()) }

// Seed takes the pods into account that are there when the scheduler starts, as of when they were created.
// It calls each with a function that takes a pod, and does so once, whoever is the first to call.
func (l *Learner) Seed(each func(found func(*v1.Pod, []placement.Ask))) {
	l.mutex.Lock()
	first := !l.seeded
	l.seeded = true
	l.mutex.Unlock()
	if !first {
		return
	}
	now := l.clock.Now()
	each(func(pod *v1.Pod, asks []placement.Ask) {
		created := pod.CreationTimestamp.Time
		if created.IsZero() || created.After(now) {
			created = now
		}
		l.add(pod, asks, created)
	})
}

func (l *Learner) add(pod *v1.Pod, asks []placement.Ask, at time.Time) {
	if len(asks) == 0 {
		return
	}
	takes := noderoom.Of(pod)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.seen++
	l.histogram.Add(placement.Pod{Namespace: pod.Namespace, MilliCPU: takes.MilliCPU, Memory: takes.Mebibytes(), Asks: asks}, at)
}

// Seen returns how many pods were taken into account.
func (l *Learner) Seen() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.seen
}

// Demand returns what is likely to be asked for if pods without devices request so much, see
// placement.Demand.Beside. It is the same until that changes noticeably.
func (l *Learner) Demand(beside float64) *placement.Demand {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.histogram.Demand(l.clock.Now(), beside)
}
