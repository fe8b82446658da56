package quartermaster

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// wakeForDevices wakes the pods that could use any of the devices, which are listed as
// for couldUse.
func (pl *Quartermaster) wakeForDevices(devices map[inventory.PoolID][]string) {
	pl.wakeInterested(devices, "", pl.waker.wake)
}

// wakeForLanded is wakeForDevices for devices that a pod had in flight, and not for that pod.
// All others wait for the rest of their pause.
func (pl *Quartermaster) wakeForLanded(by types.UID, devices map[inventory.PoolID][]string) {
	pl.wakeInterested(devices, by, pl.waker.wakeAfterPause)
}

// wakeInterested wakes the pods that could use any of the devices, except one. The scheduling
// queue would try those with the highest priority first, so these come first if not all may
// be woken at once.
func (pl *Quartermaster) wakeInterested(devices map[inventory.PoolID][]string, except types.UID, wake func(*waitingPod)) {
	var interested []*waitingPod
	for _, entry := range pl.waiting.all() {
		_, task := entry.wanted()
		switch {
		case entry.latest().UID == except:
		case task == nil:
			entry.missIfOpen()
		case !pl.couldUse(task, devices):
		case entry.isActive():
			pl.waker.wakeLater(entry)
		default:
			interested = append(interested, entry)
		}
	}
	slices.SortFunc(interested, byPriority)
	for _, entry := range interested {
		wake(entry)
	}
}

// wakeOthersOf wakes the pods that wait for a claim which was in flight for one of them, and
// was not allocated.
func (pl *Quartermaster) wakeOthersOf(failed types.UID, claim *resourceapi.ResourceClaim) {
	pods, err := pl.podsUsing(claim.Namespace, claim.Name)
	if err != nil {
		klog.Background().Error(err, "Cannot wake the pods that wait for a claim", "claim", klog.KObj(claim))
		return
	}
	for _, pod := range pods {
		if entry := pl.waiting.get(pod.UID); entry != nil && pod.UID != failed {
			pl.waker.wakeAfterPause(entry)
		}
	}
}

// wakeForSlices is wakeForDevices for devices that were published, changed or withdrawn.
// It also wakes the pods that other devices than they could use may have kept from a node;
// these after their pause, because there may be many such events that do not help.
func (pl *Quartermaster) wakeForSlices(devices map[inventory.PoolID][]string) {
	pl.wakeForDevices(devices)
	for _, entry := range pl.waiting.all() {
		if _, task := entry.wanted(); entry.sliceHappened() && (task == nil || task.Err() == nil) {
			pl.waker.wakeAfterPause(entry)
		}
	}
}

// byPriority compares pods by priority and, if it is the same, by age.
func byPriority(a, b *waitingPod) int {
	one, other := a.latest(), b.latest()
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(other), corev1helpers.PodPriority(one)),
		one.CreationTimestamp.Compare(other.CreationTimestamp.Time),
	)
}

// couldUse reports whether a task could use any of the given devices, at the best of times.
// They are listed by pool; a pool without names means all its devices, and nil that it is
// not known which.
func (pl *Quartermaster) couldUse(task *allocator.Task, devices map[inventory.PoolID][]string) bool {
	if devices == nil {
		return true
	}
	for id, names := range devices {
		if pool := pl.state.inventory.Pool(id); pool != nil && task.Interested(pl.eventContext, pool.Everywhere(), names...) {
			return true
		}
	}
	return false
}

// wantsAll reports whether any request is for all devices. Such a request waits
// for incomplete and invalid pools, and for devices that match but cannot be had.
func wantsAll(claims []*resourceapi.ResourceClaim) bool {
	for _, claim := range claims {
		for _, request := range claim.Spec.Devices.Requests {
			if request.Exactly != nil && request.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll {
				return true
			}
			for _, alternative := range request.FirstAvailable {
				if alternative.AllocationMode == resourceapi.DeviceAllocationModeAll {
					return true
				}
			}
		}
	}
	return false
}
