package timing

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Span holds the times at which the scheduler handled the pods of the measured namespace, since Restart. Zero: not yet.
type Span struct {
	// Ready is the time at which the plugin let the last pod into the queue before any pod was tried.
	Ready time.Time
	// Tried is the time of the first call of PreFilter, Reserved the time at which Reserve had succeeded for the last pod.
	Tried, Reserved time.Time
}

// Restart forgets the span so far.
func (r *Recorder) Restart() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.span = Span{}
}

// Span returns the times since Restart.
func (r *Recorder) Span() Span {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.span
}

func (r *Recorder) ready(pod *v1.Pod) {
	r.note(pod, func(span *Span) {
		if span.Tried.IsZero() {
			span.Ready = time.Now()
		}
	})
}

func (r *Recorder) tried(pod *v1.Pod, at time.Time) {
	r.note(pod, func(span *Span) {
		if span.Tried.IsZero() {
			span.Tried = at
		}
	})
}

func (r *Recorder) reserved(pod *v1.Pod) {
	r.note(pod, func(span *Span) { span.Reserved = time.Now() })
}

func (r *Recorder) note(pod *v1.Pod, change func(*Span)) {
	if !r.measures(pod) {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	change(&r.span)
}
