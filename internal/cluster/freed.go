package cluster

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Waker wakes pods of one profile that wait for devices or for a claim. Devices are names by pool;
// a pool without names stands for all its devices.
type Waker interface {
	// WakeForDevices wakes the pods that could use any of the devices.
	WakeForDevices(devices map[inventory.PoolID][]string)
	// WakeForLanded does the same for devices that a pod had in flight since then. It does not wake that pod,
	// and the back-off of all others applies. by is nil and since zero if they are not known.
	WakeForLanded(by *v1.Pod, since time.Time, devices map[inventory.PoolID][]string)
	// WakeOthersOf wakes the pods that wait for claims that were in flight for one of them since then and were
	// not allocated.
	WakeOthersOf(failed *v1.Pod, since time.Time, claims ...ledger.ClaimRef)
	// WakeUsersOf wakes the pods that wait for a claim which has lost its allocation. WakeForDevices is told of its devices.
	WakeUsersOf(claim ledger.ClaimRef)
}

// OnPublished adds a function that is called after a pool has changed.
func (s *State) OnPublished(changed func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.published = append(slices.Clip(s.published), changed)
}

// poolPublished handles a change of a pool, by slices or by taint rules.
func (s *State) poolPublished(before, after *inventory.Pool) {
	s.Order.PoolPublished(before, after)
	s.mutex.Lock()
	published := s.published
	s.mutex.Unlock()
	for _, changed := range published {
		changed()
	}
}

// Wakes adds the waker of a profile.
func (s *State) Wakes(waker Waker) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.wakers = append(slices.Clip(s.wakers), waker)
}

func (s *State) allWakers() []Waker {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.wakers
}

// Freed wakes the pods that could use devices that became free according to the ledger. It wakes
// pods of all profiles, because they share the ledger.
func (s *State) Freed(devices ledger.Freed) {
	if len(devices) == 0 {
		return
	}
	for _, waker := range s.allWakers() {
		waker.WakeForDevices(devices)
	}
}

// Landed is Freed for devices that a pod only had in flight. It does not wake that pod, and the
// back-off of all others applies: otherwise pods that fail one after the other would keep each
// other busy.
func (s *State) Landed(by *v1.Pod, since time.Time, devices ledger.Freed) {
	if len(devices) == 0 {
		return
	}
	for _, waker := range s.allWakers() {
		waker.WakeForLanded(by, since, devices)
	}
}

// EndInFlight ends the plan of a pod for a claim, and wakes the pods that waited for its devices or for the claim: no event of the API
// does. An event of the claim wakes those that share it if its allocation was stored, unless it is known to have been deallocated since:
// they may have been tried after that event and before the plan's end.
func (s *State) EndInFlight(pod *v1.Pod, claim *resourceapi.ResourceClaim, stored bool) {
	since, ref := s.inFlightSince(claim.UID), ledger.RefTo(claim)
	devices := s.Ledger.RemoveInFlight(claim.UID, pod.UID)
	if !stored {
		s.givenUp(pod, since, ref, devices)
		return
	}
	s.Freed(devices)
	if s.Ledger.State(claim.UID).Committed == nil {
		s.wakeOthersOf(pod, since, ref)
	}
}

// inFlightSince returns since when an allocation is in flight for a claim, the zero time if none is.
func (s *State) inFlightSince(claim types.UID) time.Time {
	since := s.Ledger.InFlightSince(claim)
	if since == 0 {
		return time.Time{}
	}
	return s.epoch.Add(time.Duration(since))
}

// ApprovalEnded must be called when the guard in this process no longer has a claim in flight whose
// allocation it approved. If the allocation was not stored, it counts as given up by a pod; the pod
// that tried in vain may be among those that wait for the claim. If another one was stored, the devices are free
// that this one does not have.
func (s *State) ApprovalEnded(claim ledger.ClaimRef, devices ledger.Freed) {
	if s.Ledger.State(claim.UID).Committed != nil {
		s.Landed(nil, time.Time{}, devices)
		return
	}
	s.givenUp(nil, time.Time{}, claim, devices)
}

// Holds keep devices for pods that wait and for bookings.
type Holds interface {
	// HeldFrom is that of guard.Scheduler.
	HeldFrom(claim ledger.ClaimRef, allocation *resourceapi.AllocationResult, consumers []resourceapi.ResourceClaimConsumerReference) string
}

// HeldFrom implements guard.Scheduler.
func (s *State) HeldFrom(claim ledger.ClaimRef, allocation *resourceapi.AllocationResult, consumers []resourceapi.ResourceClaimConsumerReference) string {
	return s.Holds.HeldFrom(claim, allocation, consumers)
}

// GivenUp wakes the pods that wait for claims which are no longer in flight for a gang, except for those that were allocated: no event of the
// API does.
func (s *State) GivenUp(claims []ledger.ClaimRef) {
	s.wakeOthersOf(nil, time.Time{}, slices.DeleteFunc(claims, func(claim ledger.ClaimRef) bool { return s.Ledger.State(claim.UID).Committed != nil })...)
}

func (s *State) givenUp(by *v1.Pod, since time.Time, claim ledger.ClaimRef, devices ledger.Freed) {
	s.Landed(by, since, devices)
	s.wakeOthersOf(by, since, claim)
}

// deallocated wakes the pods that wait for a claim which has lost its allocation, unless it may get another one: EndInFlight does it then.
func (s *State) deallocated(claim ledger.ClaimRef) {
	if s.Ledger.InFlight(claim.UID) != nil {
		return
	}
	for _, waker := range s.allWakers() {
		waker.WakeUsersOf(claim)
	}
}

// wakeOthersOf calls WakeOthersOf for those of the claims that are not in flight: other pods of the group use these, or they may still be stored.
func (s *State) wakeOthersOf(by *v1.Pod, since time.Time, claims ...ledger.ClaimRef) {
	claims = slices.DeleteFunc(claims, func(claim ledger.ClaimRef) bool { return s.Ledger.InFlight(claim.UID) != nil })
	if len(claims) == 0 {
		return
	}
	for _, waker := range s.allWakers() {
		waker.WakeOthersOf(by, since, claims...)
	}
}
