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
	// waiting are pods that fitted nowhere, in the order in which they count again.
	waiting []wanted
}

// wanted has a pod's requests.
type wanted struct {
	pod *v1.Pod
	placement.Pod
}

// mostWaiting limits the pods that count again while they wait.
const mostWaiting = 1024

// New returns an empty Learner.
func New(clock clock.PassiveClock) *Learner {
	return &Learner{clock: clock, histogram: placement.NewHistogram()}
}

// Saw adds a pod that requests devices. It must be called once for each pod, however often the pod is tried.
func (l *Learner) Saw(pod *v1.Pod, asks []placement.Ask) { l.add(pod, asks, l.clock.Now()) }

// Waits has a pod that requests devices and fits nowhere count again while it waits; see SawAgain.
func (l *Learner) Waits(pod *v1.Pod, asks []placement.Ask) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(asks) > 0 && len(l.waiting) < mostWaiting {
		l.waiting = append(l.waiting, wanted{pod, requests(pod, asks)})
	}
}

// SawAgain counts one of the pods that wait, each in its turn: when devices become free, these are as likely to be placed next as
// pods that are still to come. A pod for which waits returns false is forgotten.
func (l *Learner) SawAgain(waits func(*v1.Pod) bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for len(l.waiting) > 0 {
		next := l.waiting[0]
		l.waiting[0] = wanted{} // The array behind it may live on.
		l.waiting = l.waiting[1:]
		if waits(next.pod) {
			l.waiting = append(l.waiting, next)
			l.histogram.Add(next.Pod, l.clock.Now())
			return
		}
	}
}

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
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.seen++
	l.histogram.Add(requests(pod, asks), at)
}

func requests(pod *v1.Pod, asks []placement.Ask) placement.Pod {
	takes := noderesources.Of(pod)
	return placement.Pod{Namespace: pod.Namespace, MilliCPU: takes.MilliCPU, Memory: takes.Mebibytes(), Asks: asks}
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
