// Package takeover leaves alone what another process has reserved for pods: a process that died or
// lost its lease may have sent their bindings, and these may arrive for as long as the API
// server keeps a request. Unlike writes to claims, a late binding cannot be told from one in
// time. A pod whose claim was released meanwhile would be on a node without its devices.
package takeover

import (
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
)

// Pause is for how long after this process began to schedule what another one has reserved is
// left alone. It is safe for concurrent use.
//
// A reservation counts as found unless this process is known to have made it. All of it ends
// with the pause.
type Pause struct {
	// Duration is how long it lasts.
	Duration time.Duration
	// since returns when this process began to schedule.
	since    func() time.Time
	activate func(pods map[string]*v1.Pod)

	mutex sync.Mutex
	// own says of reservations of which this process has made sure whether it has made them;
	// otherwise it has found them.
	own map[reservation]bool
	// waiting are pods to be tried again after the pause, by namespace and name. While there
	// are any, a timer runs.
	waiting map[string]*v1.Pod
}

// reservation is one in the status of a claim, for a pod or a group.
type reservation struct{ claim, consumer types.UID }

// New makes a pause. since returns when this process began to schedule, activate has pods tried
// again.
func New(duration time.Duration, since func() time.Time, activate func(pods map[string]*v1.Pod)) *Pause {
	return &Pause{
		Duration: duration,
		since:    since,
		activate: activate,
		own:      make(map[reservation]bool),
		waiting:  make(map[string]*v1.Pod),
	}
}

// Left is how much of the pause is left.
func (t *Pause) Left() time.Duration {
	return t.Duration - time.Since(t.since())
}

// Made notes that this process has made sure of a reservation: its claim before the write, and
// as the server has returned it. If the fence had to be raised, the reservation was there; for a
// group, that is so only when the first of its pods comes.
func (t *Pause) Made(before, after *resourceapi.ResourceClaim, consumer types.UID) {
	if t.Left() <= 0 {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	r := reservation{after.UID, consumer}
	if _, known := t.own[r]; !known {
		t.own[r] = claimwriter.Fence(before) == claimwriter.Fence(after)
	}
}

// LeavesAlone reports whether a reservation must not be taken away yet. If so, the pod is tried
// again after the pause.
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

// FoundReserved is LeavesAlone for a claim that is to be deallocated: one that is reserved for
// nobody can be.
func (t *Pause) FoundReserved(claim *resourceapi.ResourceClaim, consumer types.UID, pod *v1.Pod) bool {
	return claimwriter.IsReservedFor(claim, consumer) && t.LeavesAlone(claim.UID, consumer, pod)
}

// Keeps reports whether a pod is to be tried again after the pause.
func (t *Pause) Keeps(pod *v1.Pod) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.waiting[pod.Namespace+"/"+pod.Name] != nil
}

// Message says why a pod is to be tried again after the pause. what is what was reserved for it.
func (t *Pause) Message(what string) string {
	return fmt.Sprintf("%s was reserved for the pod by another process which may have sent its binding; "+
		"it is left alone for another %s", what, t.Left().Round(time.Second))
}

// end has pods tried again that the pause has kept from it.
func (t *Pause) end() {
	t.mutex.Lock()
	pods := t.waiting
	t.waiting = make(map[string]*v1.Pod)
	t.mutex.Unlock()
	t.activate(pods)
}
