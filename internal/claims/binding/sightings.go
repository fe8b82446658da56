package binding

import (
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
)

// sightings remembers when allocations were first seen that have no timestamp, or one that is yet to come: the clock that made it
// was ahead. Otherwise each wait would end by its own beginning, and pods that share a claim would take turns to wait for good.
type sightings struct {
	mutex sync.Mutex
	of    *lru.Cache // sighting, by UID of a claim
}

type sighting struct {
	timestamp *metav1.Time
	devices   []resourceapi.DeviceRequestAllocationResult
	at        time.Time
}

// expiry returns when the timeout ends that began with the claim's allocation. It is the same for all pods of the profile.
func (w *Waiter) expiry(claim *resourceapi.ResourceClaim) time.Time {
	allocated, now := claim.Status.Allocation.AllocationTimestamp, time.Now()
	w.seen.mutex.Lock()
	defer w.seen.mutex.Unlock()
	if w.seen.of == nil {
		w.seen.of = lru.New(mostFailing)
	}
	if known, found := w.seen.of.Get(claim.UID); found {
		if first := known.(sighting); first.timestamp.Equal(allocated) && slices.EqualFunc(first.devices, claim.Status.Allocation.Devices.Results, isSameDevice) {
			return first.at.Add(w.Timeout)
		}
	}
	if allocated != nil && !allocated.After(now) {
		return allocated.Add(w.Timeout)
	}
	w.seen.of.Add(claim.UID, sighting{allocated, claim.Status.Allocation.Devices.Results, now})
	return now.Add(w.Timeout)
}

func isSameDevice(a, b resourceapi.DeviceRequestAllocationResult) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device
}
