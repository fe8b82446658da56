package queue

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
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

// WakeOthersOf wakes the other pods that wait for claims that were in flight for the failed pod, and
// were not allocated, after their pause.
func (e *Events) WakeOthersOf(failed *v1.Pod, since time.Time, claims ...ledger.ClaimRef) {
	for _, claim := range claims {
		pods, err := e.Claims.Users(claim.Namespace, claim.Name)
		if err != nil {
			klog.Background().Error(err, "Cannot requeue the pods that wait for a claim", "claim", claim)
			continue
		}
		for _, pod := range pods {
			if entry := e.Pods.Get(pod.UID); entry != nil && !notHelped(entry, failed, since) {
				e.Waker.WakeAfterPause(entry)
			}
		}
	}
}

// WakeUsersOf wakes the pods that wait for a claim which has lost its allocation, after their pause. An event that shows this wakes them at once.
func (e *Events) WakeUsersOf(claim ledger.ClaimRef) { e.WakeOthersOf(nil, time.Time{}, claim) }

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

// byPriority compares pods by priority and, if it is the same, by age and name.
func byPriority(a, b *Pod) int {
	one, other := a.Latest(), b.Latest()
	return cmp.Or(cmp.Compare(corev1helpers.PodPriority(other), corev1helpers.PodPriority(one)), podutil.Older(one, other))
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

// SliceChanged wakes the pods that the change of a slice may help, if more than its metadata changed. The end of a slice can make a
// pool complete or valid. Like ClaimChanged, it needs a refreshed state, and does not use the scheduling queue: the queue
// reports an event only to pods that wait or are being tried. A pod that is about to be tried could
// still find a state without the event, and would be put to sleep.
func (e *Events) SliceChanged(event informer.Event[resourceapi.ResourceSlice]) {
	if e.Pods.Empty() {
		return // Slices are large to compare.
	}
	if event.Before != nil && event.After != nil && quantity.DeepEqual(&event.Before.Spec, &event.After.Spec) {
		return
	}
	pools := make(map[inventory.PoolID][]string)
	for _, slice := range []*resourceapi.ResourceSlice{event.Before, event.After} {
		if slice != nil {
			pools[inventory.PoolID{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name}] = nil
		}
	}
	e.wakeForSlices(pools)
}

// RuleChanged wakes the pods that the change or deletion of a taint rule may help. A new rule only takes devices away.
func (e *Events) RuleChanged(event informer.Event[resourceapi.DeviceTaintRule]) {
	if event.Before == nil || event.After != nil && quantity.DeepEqual(&event.Before.Spec, &event.After.Spec) {
		return
	}
	e.WakeForDevices(devicesOfRule(event.Before))
}

// devicesOfRule returns the devices that a rule may apply to, as for CouldUse.
func devicesOfRule(rule *resourceapi.DeviceTaintRule) map[inventory.PoolID][]string {
	if rule == nil || rule.Spec.DeviceSelector == nil {
		return nil
	}
	selector := rule.Spec.DeviceSelector
	if selector.Driver == nil || selector.Pool == nil {
		return nil
	}
	id := inventory.PoolID{Driver: *selector.Driver, Name: *selector.Pool}
	if selector.Device == nil {
		return map[inventory.PoolID][]string{id: nil}
	}
	return map[inventory.PoolID][]string{id: {*selector.Device}}
}
