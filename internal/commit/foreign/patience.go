package foreign

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

const (
	// ownForOthers is the ratio of a pod's own time to the time that it may wait for writes in other
	// namespaces: these get less than a tenth of its time, including the cost of looking at them.
	ownForOthers = 12
	// longestForOthers limits the time that a pod waits for these, in all attempts together.
	longestForOthers = 400 * time.Millisecond
)

// patience is the waiting time of a pod of this scheduler.
type patience struct {
	since time.Time
	// forOthers is the part of it that was for other namespaces.
	forOthers time.Duration
}

// Spare returns how long a pod of this scheduler may (still) wait for writes in other namespaces than
// its own: a small part of the time that it has been known, at most longestForOthers. It returns 0 if
// the pod is not known to wait.
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

// Spend records that a pod has waited for writes in other namespaces.
func (r *Registry) Spend(pod types.UID, waited time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if p := r.ours[pod]; p != nil {
		p.forOthers += waited
	}
}

// applyOurs stores the state of a pod of this scheduler.
func (r *Registry) applyOurs(pod *v1.Pod, now time.Time) {
	switch {
	case pod.Spec.NodeName != "" || dra.HasEnded(pod):
		delete(r.ours, pod.UID)
	case r.ours[pod.UID] == nil:
		r.ours[pod.UID] = &patience{since: now}
	}
}
