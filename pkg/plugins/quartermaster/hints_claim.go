package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// claimEvent is a change of a claim: created if before is nil, deleted if after is.
type claimEvent struct {
	before, after *resourceapi.ResourceClaim
	// unknown is set if the claim was deleted while the watch was broken, and so
	// nobody knows its last state.
	unknown bool
}

func newClaimEvent(oldObj, newObj any) claimEvent {
	e := claimEvent{}
	e.before, _ = oldObj.(*resourceapi.ResourceClaim)
	e.after, _ = newObj.(*resourceapi.ResourceClaim)
	if tombstone, ok := oldObj.(cache.DeletedFinalStateUnknown); ok {
		e.before, _ = tombstone.Obj.(*resourceapi.ResourceClaim)
		e.unknown = true
	}
	return e
}

// latest is the newer of the two states.
func (e claimEvent) latest() *resourceapi.ResourceClaim {
	if e.after != nil {
		return e.after
	}
	return e.before
}

// frees reports whether devices that were in use may not be any more.
func (e claimEvent) frees() bool {
	if e.unknown {
		return true
	}
	if e.before == nil || e.before.Status.Allocation == nil {
		return false
	}
	// If the watch was broken, it can look as if an allocation had been replaced.
	return e.after == nil || e.after.Status.Allocation == nil ||
		!apiequality.Semantic.DeepEqual(e.before.Status.Allocation.Devices.Results, e.after.Status.Allocation.Devices.Results)
}

// freed returns the devices that became free, by pool; nil if that is not known.
func (e claimEvent) freed() map[inventory.PoolID][]string {
	if e.unknown {
		return nil
	}
	return devicesByPool(e.before)
}

// devicesByPool returns the names of the devices that the claim has, by pool.
func devicesByPool(claim *resourceapi.ResourceClaim) map[inventory.PoolID][]string {
	devices := make(map[inventory.PoolID][]string)
	if claim == nil || claim.Status.Allocation == nil {
		return devices
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		id := inventory.PoolID{Driver: result.Driver, Name: result.Pool}
		devices[id] = append(devices[id], result.Device)
	}
	return devices
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

// isSchedulableAfterTargetPodUpdate wakes a pod whose claims are all there now.
func (pl *Quartermaster) isSchedulableAfterTargetPodUpdate(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	pod, ok := newObj.(*v1.Pod)
	return hint(!ok || pl.checkClaims(pod) == nil)
}

// isSchedulableAfterRelease wakes pods when another pod gave up devices that it
// had in flight. See Unreserve.
func (pl *Quartermaster) isSchedulableAfterRelease(_ klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	other, ok := oldObj.(*v1.Pod)
	return hint(ok && other.UID != pod.UID && pl.released.has(other.UID))
}
