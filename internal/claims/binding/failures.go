package binding

import (
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

const (
	// remembered is the time for which a failure counts. After that, the device is probably repaired.
	remembered = time.Hour
	// mostFailing limits the pods and claims whose failures are remembered, and mostDevices the devices of each. The
	// ones that failed last are kept.
	mostFailing, mostDevices = 1024, 16
)

// Device names a device.
type Device struct {
	Pool inventory.PoolID
	Name string
}

// Failures remembers which devices did not get ready, so that the next attempts prefer other devices. It remembers them
// for the pod and for each of its claims: the pod may be created again, and another pod may use the claim. It is safe
// for concurrent use.
type Failures struct {
	clock clock.PassiveClock
	mutex sync.Mutex
	of    *lru.Cache // []deviceFailures, by UID of a pod or a claim
}

// deviceFailures counts the failures of a device.
type deviceFailures struct {
	device Device
	times  int
	last   time.Time
}

// NewFailures returns an empty Failures.
func NewFailures(clock clock.PassiveClock) *Failures {
	return &Failures{clock: clock, of: lru.New(mostFailing)}
}

// Note remembers the devices of a claim that make it Broken: those that have failed, or if none has, those that are not
// ready.
func (f *Failures) Note(pod types.UID, claim *resourceapi.ResourceClaim) {
	f.noteUnless(nil, pod, claim)
}

// NoteUnknown does the same as Note for the devices without a recent failure for the claim: another process has noted their failure, and the
// claim shows it until it is deallocated.
func (f *Failures) NoteUnknown(pod types.UID, claim *resourceapi.ResourceClaim) {
	f.noteUnless(f.Of(claim.UID), pod, claim)
}

// noteUnless implements Note, except for known devices.
func (f *Failures) noteUnless(known map[Device]int, pod types.UID, claim *resourceapi.ResourceClaim) {
	devices := readinessOf(claim)
	hasFailed := failure(claim, devices) != nil
	for _, of := range devices {
		if hasFailed && len(of.failures) == 0 || !hasFailed && len(of.pending) == 0 {
			continue
		}
		device := Device{inventory.PoolID{Driver: of.device.Driver, Name: of.device.Pool}, of.device.Device}
		if known[device] == 0 {
			f.note(pod, device)
			f.note(claim.UID, device)
		}
	}
}

func (f *Failures) note(uid types.UID, device Device) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	before, now := f.known(uid), f.clock.Now()
	latest := deviceFailures{device: device, times: 1, last: now}
	list := make([]deviceFailures, 0, mostDevices)
	for _, other := range before {
		if other.device == device {
			latest.times += other.times
		} else {
			list = append(list, other)
		}
	}
	if len(list) == mostDevices {
		list = list[1:] // Drop the oldest failure.
	}
	f.of.Add(uid, append(list, latest))
}

// known returns the failures that still count, the latest last.
func (f *Failures) known(uid types.UID) (list []deviceFailures) {
	found, _ := f.of.Get(uid)
	all, _ := found.([]deviceFailures)
	for i := range all {
		if f.clock.Since(all[i].last) < remembered {
			list = append(list, all[i])
		}
	}
	return list
}

// Of returns the highest number of recent failures of each device for any of these pods and claims; nil if there are
// none.
func (f *Failures) Of(uids ...types.UID) map[Device]int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.of.Len() == 0 {
		return nil
	}
	var times map[Device]int
	for _, uid := range uids {
		for _, of := range f.known(uid) {
			if times == nil {
				times = make(map[Device]int)
			}
			times[of.device] = max(times[of.device], of.times)
		}
	}
	return times
}

// Forget removes the failures of a pod or a claim.
func (f *Failures) Forget(uid types.UID) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.of.Remove(uid)
}
