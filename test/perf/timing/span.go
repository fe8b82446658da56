package timing

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Span is when the scheduler dealt with the pods of the measured namespace, from a call of Restart on. What did not happen is zero.
type Span struct {
	// Ready is when, before any of them was tried, the last one that may be scheduled was let into the queue by the plugin.
	Ready time.Time
	// Tried is when PreFilter was called for the first of them, Reserved when Reserve had succeeded for the last one.
	Tried, Reserved time.Time
}

// Restart forgets the span so far.
func (r *Recorder) Restart() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.span = Span{}
}

// Span is what happened since Restart.
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
