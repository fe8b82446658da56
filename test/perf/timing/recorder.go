package timing

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Recorder adds up the calls of a plugin for the pods of one namespace. It is safe
// for concurrent use: Filter and Score run on many nodes at a time.
type Recorder struct {
	namespace string

	preFilter, preFilterExtensions, filter, score, normalizeScore, reserve, preBind total

	committed atomic.Int64

	mutex  sync.Mutex
	handle fwk.Handle
}

// total is the number of calls and the sum of their durations in nanoseconds.
type total struct {
	calls, nanoseconds atomic.Int64
}

func (t *total) sum() Total {
	return Total{Calls: t.calls.Load(), Time: time.Duration(t.nanoseconds.Load())}
}

// Total is what the calls of one extension point came to.
type Total struct {
	Calls int64
	// Time is wall-clock time. Calls on several nodes at a time are added up.
	Time time.Duration
}

// Totals are the calls of a plugin so far.
type Totals struct {
	PreFilter, PreFilterExtensions, Filter, Score, NormalizeScore, Reserve, PreBind Total
	// Committed is the number of pods whose claims have been written, that is,
	// whose PreBind succeeded.
	Committed int64
}

// Plugin is the time of the extension points that find a node: PreFilter, Filter
// and Score with their extensions.
func (t Totals) Plugin() time.Duration {
	return t.PreFilter.Time + t.PreFilterExtensions.Time + t.Filter.Time + t.Score.Time + t.NormalizeScore.Time
}

// NewRecorder makes a recorder for the pods of a namespace.
func NewRecorder(namespace string) *Recorder {
	return &Recorder{namespace: namespace}
}

// Totals returns the totals so far.
func (r *Recorder) Totals() Totals {
	return Totals{
		PreFilter:           r.preFilter.sum(),
		PreFilterExtensions: r.preFilterExtensions.sum(),
		Filter:              r.filter.sum(),
		Score:               r.score.sum(),
		NormalizeScore:      r.normalizeScore.sum(),
		Reserve:             r.reserve.sum(),
		PreBind:             r.preBind.sum(),
		Committed:           r.committed.Load(),
	}
}

// Handle is the scheduler's, or nil before it has made the plugin.
func (r *Recorder) Handle() fwk.Handle {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.handle
}

func (r *Recorder) setHandle(handle fwk.Handle) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.handle = handle
}

func (r *Recorder) measures(pod *v1.Pod) bool { return pod.Namespace == r.namespace }

func (r *Recorder) add(to *total, pod *v1.Pod, start time.Time) {
	if !r.measures(pod) {
		return
	}
	to.nanoseconds.Add(int64(time.Since(start)))
	to.calls.Add(1)
}
