package queue

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// WakeForDevices wakes the pods that could use any of the devices, see CouldUse.
func (e *Events) WakeForDevices(devices map[inventory.PoolID][]string) {
	e.wakeInterested(devices, func(*Pod) bool { return false }, e.Waker.Wake)
}

// WakeForLanded does the same for devices that a pod had in flight, but does not wake that pod. All
// others wait for the rest of their pause. Pods that do so already are passed over: when a group gets a
// place, each of its pods in turn gives up the devices that it had in flight during the search, and
// nothing must be done for all other pods of the group each time.
func (e *Events) WakeForLanded(by *v1.Pod, since time.Time, devices map[inventory.PoolID][]string) {
	now := e.Waker.clock.Now()
	passOver := func(entry *Pod) bool { return entry.isDue(now) || notHelped(entry, by, since) }
	e.wakeInterested(devices, passOver, e.Waker.WakeAfterPause)
}

// notHelped reports whether a pod finds nothing new now that the attempt of another pod has ended which had something in flight
// since then: it is that pod or of the same PodGroup, whose pods are tried together, or it was rejected before. Otherwise a group
// that does not fit, which kube-scheduler tries again after each back-off, would have all waiting pods tried as often.
func notHelped(entry *Pod, by *v1.Pod, since time.Time) bool {
	if by == nil {
		return false
	}
	pod := entry.Latest()
	group := dra.PodGroupName(pod)
	return pod.UID == by.UID || group != "" && group == dra.PodGroupName(by) && pod.Namespace == by.Namespace || entry.rejectedBefore(since)
}

// wakeInterested wakes the pods that could use any of the devices and are not passed over. If not all
// of them may be woken at once, those with the highest priority come first, because the scheduling
// queue would try them first.
func (e *Events) wakeInterested(devices map[inventory.PoolID][]string, passOver func(*Pod) bool, wake func(*Pod)) {
	var interested []*Pod
	for _, entry := range e.Pods.All() {
		if passOver(entry) {
			continue
		}
		_, task := entry.Wanted()
		switch {
		case task == nil:
			entry.MissIfOpen()
		case !e.CouldUse(task, devices):
		case entry.isActive():
			e.Waker.wakeLater(entry)
		default:
			interested = append(interested, entry)
		}
	}
	slices.SortFunc(interested, byPriority)
	for _, entry := range interested {
		wake(entry)
	}
}

// WakeOthersOf wakes the other pods that wait for a claim that was in flight for the failed pod, and
// was not allocated.
func (e *Events) WakeOthersOf(failed *v1.Pod, since time.Time, claim ledger.ClaimRef) {
	pods, err := e.Claims.Users(claim.Namespace, claim.Name)
	if err != nil {
		klog.Background().Error(err, "Cannot requeue the pods that wait for a claim", "claim", claim)
		return
	}
	for _, pod := range pods {
		if entry := e.Pods.Get(pod.UID); entry != nil && !notHelped(entry, failed, since) {
			e.Waker.WakeAfterPause(entry)
		}
	}
}

// wakeForSlices does the same as WakeForDevices for devices that were published, changed or withdrawn.
// It also wakes pods that may be kept from a node by devices that they could not use. These wait for
// their pause, because many such events may not help.
func (e *Events) wakeForSlices(devices map[inventory.PoolID][]string) {
	e.WakeForDevices(devices)
	for _, entry := range e.Pods.All() {
		if _, task := entry.Wanted(); entry.sliceHappened() && (task == nil || task.Err() == nil) {
			e.Waker.WakeAfterPause(entry)
		}
	}
}

// byPriority compares pods by priority and, if it is the same, by age.
func byPriority(a, b *Pod) int {
	one, other := a.Latest(), b.Latest()
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(other), corev1helpers.PodPriority(one)),
		one.CreationTimestamp.Compare(other.CreationTimestamp.Time),
	)
}

// CouldUse reports whether a task could ever use any of the given devices, even if they are in use now.
// The devices are listed by pool: a pool without names means all its devices, and nil means that the
// devices are unknown.
func (e *Events) CouldUse(task *allocator.Task, devices map[inventory.PoolID][]string) bool {
	if devices == nil {
		return true
	}
	for id, names := range devices {
		if pool := e.Pools.Pool(id); pool != nil && task.Interested(e.Context, pool, names...) {
			return true
		}
	}
	return false
}
