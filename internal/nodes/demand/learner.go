package demand

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// A Learner is shared by all profiles of a scheduler. It is safe for concurrent use.
type Learner struct {
	clock clock.PassiveClock

	mutex     sync.Mutex
	histogram *placement.Histogram
	seeded    bool
	seen      int
}

// New returns an empty Learner.
func New(clock clock.PassiveClock) *Learner {
	return &Learner{clock: clock, histogram: placement.NewHistogram()}
}

// Saw adds a pod that requests devices. It must be called once for each pod, however often the pod is tried.
func (l *Learner) Saw(pod *v1.Pod, asks []placement.Ask) { l.add(pod, asks, l.clock.Now()) }

// Seed adds the pods that exist when the scheduler starts, at their creation times. each must call found for each of
// them. Only the first call of Seed has an effect.
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
	takes := noderesources.Of(pod)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.seen++
	l.histogram.Add(placement.Pod{Namespace: pod.Namespace, MilliCPU: takes.MilliCPU, Memory: takes.Mebibytes(), Asks: asks}, at)
}

// Seen returns the number of added pods.
func (l *Learner) Seen() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.seen
}

// Demand returns the likely requests, given the requests of pods without devices; see placement.Demand.Beside. It
// returns the same value until that changes noticeably.
func (l *Learner) Demand(beside float64) *placement.Demand {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.histogram.Demand(l.clock.Now(), beside)
}
