package clusterstate

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Waker wakes pods of one profile that wait for devices or for a claim. Devices are names by
// pool; a pool without names means all its devices.
type Waker interface {
	// WakeForDevices wakes the pods that could use any of the devices.
	WakeForDevices(devices map[inventory.PoolID][]string)
	// WakeForLanded is the same for devices that a pod had in flight. It does not wake that
	// pod, and the pause of all others counts.
	WakeForLanded(by types.UID, devices map[inventory.PoolID][]string)
	// WakeOthersOf wakes the pods that wait for a claim which was in flight for one of them,
	// and was not allocated.
	WakeOthersOf(failed types.UID, claim ledger.ClaimRef)
}

// Wakes adds a profile whose pods are to be woken.
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

// Freed wakes the pods that could use devices of which the ledger says that they became
// free. All profiles hear of it: they share the ledger, and so what one of them gives up.
func (s *State) Freed(devices ledger.Freed) {
	if len(devices) == 0 {
		return
	}
	for _, waker := range s.allWakers() {
		waker.WakeForDevices(devices)
	}
}

// Landed is Freed for devices that a pod only had in flight. It does not wake that pod, and
// the pause of all others counts: pods that fail one after the other would keep each other
// busy.
func (s *State) Landed(by types.UID, devices ledger.Freed) {
	if len(devices) == 0 {
		return
	}
	for _, waker := range s.allWakers() {
		waker.WakeForLanded(by, devices)
	}
}

// GivenUp wakes the pods that may have waited for an allocation in flight which is not going
// to be written: for its devices, or for the claim.
func (s *State) GivenUp(pod *v1.Pod, claim *resourceapi.ResourceClaim, devices ledger.Freed) {
	s.givenUp(pod.UID, ledger.RefTo(claim), devices)
}

// ApprovalEnded is called when the guard in this process has a claim in flight no more of which it
// had approved an allocation. If that was not stored, it is as if a pod had given it up; the one
// that has tried in vain may be among those who wait for the claim.
func (s *State) ApprovalEnded(claim ledger.ClaimRef, devices ledger.Freed) {
	if s.Ledger.State(claim.UID).Committed == nil {
		s.givenUp("", claim, devices)
	}
}

func (s *State) givenUp(by types.UID, claim ledger.ClaimRef, devices ledger.Freed) {
	s.Landed(by, devices)
	if s.Ledger.InFlight(claim.UID) != nil {
		return // Others of the pod's group use it, or it may be stored yet.
	}
	for _, waker := range s.allWakers() {
		waker.WakeOthersOf(by, claim)
	}
}
