package commit

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
)

// Pause is the time after this process began to schedule in which other processes' reservations are protected. It is
// safe for concurrent use.
//
// A reservation counts as found unless this process is known to have made it. After the pause no reservation is
// protected.
type Pause struct {
	// Duration is the length of the pause.
	Duration time.Duration
	tenure   Tenure
	queue    fwk.PodActivator
	logger   klog.Logger

	mutex sync.Mutex
	// own is true for reservations that this process made, and false for those that it found when it wrote them. All
	// others count as found.
	own map[reservation]bool
	// waiting holds pods to be tried again after the pause, by "namespace/name". While there are any, a timer runs.
	waiting map[string]*v1.Pod
}

// A reservation is an entry in a claim's status.reservedFor, for a pod or a group.
type reservation struct{ claim, consumer types.UID }

// Tenure is the time in which this process schedules.
type Tenure interface {
	// LeadsSince returns when this process began to schedule.
	LeadsSince() time.Time
}

// New returns a Pause at the beginning of a tenure. After it, pods are tried again.
func New(logger klog.Logger, duration time.Duration, tenure Tenure, queue fwk.PodActivator) *Pause {
	return &Pause{
		Duration: duration,
		tenure:   tenure,
		queue:    queue,
		logger:   logger,
		own:      make(map[reservation]bool),
		waiting:  make(map[string]*v1.Pod),
	}
}

// Left returns the rest of the pause.
func (t *Pause) Left() time.Duration {
	return t.Duration - time.Since(t.tenure.LeadsSince())
}

// Made records whether this process made a reservation that it wrote: before is the claim before the write, after the
// claim that the server returned. If the fence was raised, the reservation had existed before. For a group, that is
// decided when the first of its pods is written.
func (t *Pause) Made(before, after *resourceapi.ResourceClaim, consumer types.UID) {
	if t.Left() <= 0 {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	r := reservation{after.UID, consumer}
	if _, known := t.own[r]; !known {
		t.own[r] = write.Fence(before) == write.Fence(after)
	}
}

// LeavesAlone reports whether a reservation must not be removed yet. If so, the pod is tried again after the pause.
func (t *Pause) LeavesAlone(claim, consumer types.UID, pod *v1.Pod) bool {
	left := t.Left()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if left <= 0 {
		clear(t.own)
		return false
	}
	if t.own[reservation{claim, consumer}] {
		return false
	}
	if len(t.waiting) == 0 {
		time.AfterFunc(left, t.end)
	}
	t.waiting[pod.Namespace+"/"+pod.Name] = pod
	return true
}

// FoundReserved does the same as LeavesAlone for a claim to be deallocated. A claim without the reservation may be
// deallocated at once.
func (t *Pause) FoundReserved(claim *resourceapi.ResourceClaim, consumer types.UID, pod *v1.Pod) bool {
	return write.IsReservedFor(claim, consumer) && t.LeavesAlone(claim.UID, consumer, pod)
}

// Keeps reports whether a pod waits for the end of the pause.
func (t *Pause) Keeps(pod *v1.Pod) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.waiting[pod.Namespace+"/"+pod.Name] != nil
}

// Message returns why a pod must wait for the end of the pause. what names the reserved objects.
func (t *Pause) Message(what string) string {
	return fmt.Sprintf("%s was reserved for the pod by another process which may have sent its binding; "+
		"it is left alone for another %s", what, t.Left().Round(time.Second))
}

// end reactivates the pods that wait for the end of the pause.
func (t *Pause) end() {
	t.mutex.Lock()
	pods := t.waiting
	t.waiting = make(map[string]*v1.Pod)
	t.mutex.Unlock()
	t.queue.Activate(t.logger, pods)
}
