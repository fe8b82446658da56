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

	preFilter, preFilterExtensions, filter, postFilter, preScore, score, normalizeScore, reserve, preBind total

	committed atomic.Int64

	mutex  sync.Mutex
	handle fwk.Handle
	// first is the time at which the first pod got into the queue, last the time at which the
	// claims of the last pod had been written.
	first, last time.Time
	// onFirst is called when the first pod gets into the queue, which waits for it.
	onFirst func()
	span    Span
}

// total is the number of calls and the sum of their durations in nanoseconds.
type total struct {
	calls, nanoseconds atomic.Int64
}

func (t *total) sum() Total {
	return Total{Calls: t.calls.Load(), Time: time.Duration(t.nanoseconds.Load())}
}

// Total is the number of calls of one extension point and their total time.
type Total struct {
	Calls int64
	// Time is wall-clock time. Calls on several nodes at a time are added up.
	Time time.Duration
}

// Totals are the calls of a plugin so far.
type Totals struct {
	PreFilter, PreFilterExtensions, Filter, PostFilter, PreScore, Score, NormalizeScore, Reserve, PreBind Total
	// Committed is the number of pods whose claims have been written, that is,
	// whose PreBind succeeded.
	Committed int64
	// Elapsed is the time from the arrival of the first pod in the queue until the claims
	// of the last one had been written.
	Elapsed time.Duration
}

// Plugin returns the plugin's own time in the scheduling cycle: PreFilter, Filter,
// PostFilter, PreScore, Score and Reserve with their extensions.
func (t Totals) Plugin() time.Duration {
	var sum time.Duration
	for _, point := range []Total{t.PreFilter, t.PreFilterExtensions, t.Filter, t.PostFilter, t.PreScore, t.Score, t.NormalizeScore, t.Reserve} {
		sum += point.Time
	}
	return sum
}

// NewRecorder makes a recorder for the pods of a namespace.
func NewRecorder(namespace string) *Recorder {
	return &Recorder{namespace: namespace}
}

// Totals returns the totals so far.
func (r *Recorder) Totals() Totals {
	r.mutex.Lock()
	elapsed := max(r.last.Sub(r.first), 0)
	r.mutex.Unlock()
	return Totals{
		PreFilter:           r.preFilter.sum(),
		PreFilterExtensions: r.preFilterExtensions.sum(),
		Filter:              r.filter.sum(),
		PostFilter:          r.postFilter.sum(),
		PreScore:            r.preScore.sum(),
		Score:               r.score.sum(),
		NormalizeScore:      r.normalizeScore.sum(),
		Reserve:             r.reserve.sum(),
		PreBind:             r.preBind.sum(),
		Committed:           r.committed.Load(),
		Elapsed:             elapsed,
	}
}

// First returns the time at which the first pod got into the queue.
func (r *Recorder) First() time.Time {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.first
}

// Handle returns the scheduler's handle, nil until the scheduler has made the plugin.
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

// OnFirst registers f to be called once, when the first pod gets into the queue.
func (r *Recorder) OnFirst(f func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.onFirst = f
}

// enqueued notes that a pod may get into the queue.
func (r *Recorder) enqueued(pod *v1.Pod) {
	if !r.measures(pod) {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.first.IsZero() {
		return
	}
	if r.onFirst != nil {
		r.onFirst()
	}
	r.first = time.Now()
}

// written notes that the claims of a pod have been written.
func (r *Recorder) written(pod *v1.Pod) {
	if !r.measures(pod) {
		return
	}
	r.committed.Add(1)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.last = time.Now()
}

func (r *Recorder) measures(pod *v1.Pod) bool { return pod.Namespace == r.namespace }

func (r *Recorder) add(to *total, pod *v1.Pod, start time.Time) {
	if !r.measures(pod) {
		return
	}
	to.nanoseconds.Add(int64(time.Since(start)))
	to.calls.Add(1)
}
