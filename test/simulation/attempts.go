package simulation

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
)

const (
	// spin is the maximum number of attempts to schedule pods without gangs in the last minute of a whole quiet. It is also the maximum
	// number of requests, without those at regular intervals and those about Events, because client-go ends a series of Events minutes
	// later.
	spin = 30
	// spinOfOne is the maximum number of attempts for one pod in that minute. Upstream tries PodGroups again after each back-off, of ten
	// seconds at most, even if nothing happens (AddAttemptedPodGroupIfNeeded of the scheduling queue). It does the same for attempts
	// that end with an error.
	spinOfOne = 8
	// spinAtOnce is the maximum number of attempts for one pod in a second at any time.
	spinAtOnce = 200
)

// attempts counts the attempts after which a pod could not be scheduled.
type attempts struct {
	mutex sync.Mutex
	// alone counts the attempts for pods without gangs, of the attempts for each pod.
	alone int
	of    map[string]int
	// lately counts the attempts for each pod since the start of a second.
	lately map[string]*burst
	// fail records a failure of the history.
	fail func(format string, args ...any)
}

// A burst is the number of attempts of a pod since a moment.
type burst struct {
	since time.Time
	n     int
}

// count counts an attempt. It sleeps if one pod had too many attempts in a second: if the scheduler tries pods again and again without a
// pause, virtual time stands still and the history does not end.
func (a *attempts) count(pod *v1.Pod) {
	if a.add(pod) > spinAtOnce {
		a.fail("pod %s was tried %d times within a second", pod.Name, spinAtOnce)
		time.Sleep(time.Second)
	}
}

// add counts an attempt, and returns the number of attempts for the pod within a second.
func (a *attempts) add(pod *v1.Pod) int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.of == nil {
		a.of, a.lately = map[string]int{}, map[string]*burst{}
	}
	a.of[pod.Name]++
	if pod.Spec.SchedulingGroup == nil && crd.NameOf(pod) == "" {
		a.alone++
	}
	b := a.lately[pod.Name]
	if b == nil || time.Since(b.since) >= time.Second {
		b = &burst{since: time.Now()}
		a.lately[pod.Name] = b
	}
	b.n++
	return b.n
}

// now returns the counts so far.
func (a *attempts) now() (alone int, of map[string]int) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.alone, maps.Clone(a.of)
}

// since describes the excess attempts of a minute in which nothing happens, from the counts at its beginning.
func (a *attempts) since(alone int, of map[string]int) (spins []string) {
	aloneNow, ofNow := a.now()
	if n := aloneNow - alone; n > spin {
		spins = append(spins, fmt.Sprintf("%d attempts to schedule pods without gangs in a minute in which nothing happens; of each pod:%s", n, tally(of, ofNow)))
	}
	most, which := spinOfOne, ""
	for pod, n := range ofNow {
		if n -= of[pod]; n > most {
			most, which = n, pod
		}
	}
	if which != "" {
		spins = append(spins, fmt.Sprintf("%d attempts to schedule pod %s in a minute in which nothing happens", most, which))
	}
	return spins
}

// tally returns the number of attempts for each pod as text.
func tally(before, now map[string]int) (text string) {
	for _, pod := range slices.Sorted(maps.Keys(now)) {
		if n := now[pod] - before[pod]; n > 0 {
			text += fmt.Sprintf(" %s %d", pod, n)
		}
	}
	return text
}

// countingBroadcaster counts the Events about pods that could not be scheduled: one for each attempt. It sends no Events, because nobody
// reads them.
type countingBroadcaster struct {
	//nolint:staticcheck // SA1019: kube-scheduler still uses it.
	events.EventBroadcasterAdapter
	attempts *attempts
}

// NewRecorder implements events.EventBroadcasterAdapter.
func (b countingBroadcaster) NewRecorder(name string) events.EventRecorderLogger {
	return countingRecorder{b.EventBroadcasterAdapter.NewRecorder(name), b.attempts}
}

type countingRecorder struct {
	events.EventRecorderLogger
	attempts *attempts
}

// Eventf implements events.EventRecorder.
func (r countingRecorder) Eventf(regarding, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	if pod, ok := regarding.(*v1.Pod); ok && reason == "FailedScheduling" {
		r.attempts.count(pod)
	}
}

// WithLogger implements events.EventRecorderLogger.
func (r countingRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return countingRecorder{r.EventRecorderLogger.WithLogger(logger), r.attempts}
}
