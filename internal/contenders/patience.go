package contenders

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// ownForOthers is how much time of its own a pod has to have had for the time that it waits for what
	// is written in other namespaces: less than a tenth goes to these, with what it costs to look at them.
	ownForOthers = 12
	// longestForOthers is for how long a pod waits at most for that, all attempts together.
	longestForOthers = 400 * time.Millisecond
)

// patience is what a pod of this scheduler has waited.
type patience struct {
	since time.Time
	// forOthers is how much of it was for others.
	forOthers time.Duration
}

// Spare returns for how long a pod of this scheduler may (still) wait for what is written in other
// namespaces than its own: a small part of the time that it has been known, and never for long,
// however much there is. 0 if it is not known to wait.
func (r *Registry) Spare(pod types.UID) time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	p := r.ours[pod]
	if p == nil {
		return 0
	}
	own := r.clock.Since(p.since) - p.forOthers
	return max(0, min(own/ownForOthers, longestForOthers)-p.forOthers)
}

// Spend tells that a pod has waited for what is written in other namespaces.
func (r *Registry) Spend(pod types.UID, waited time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if p := r.ours[pod]; p != nil {
		p.forOthers += waited
	}
}

// applyOurs takes over a pod of this scheduler.
func (r *Registry) applyOurs(pod *v1.Pod, now time.Time) {
	switch {
	case pod.Spec.NodeName != "" || over(pod):
		delete(r.ours, pod.UID)
	case r.ours[pod.UID] == nil:
		r.ours[pod.UID] = &patience{since: now}
	}
}
