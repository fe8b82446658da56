package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// freed wakes the pods that could use devices of which the ledger says that they became
// free. All profiles hear of it: they share the ledger, and so what one of them gives up.
func (s *clusterState) freed(devices ledger.Freed) {
	if len(devices) == 0 {
		return
	}
	for _, pl := range s.allProfiles() {
		pl.events.WakeForDevices(devices)
	}
}

// landed is freed for devices that a pod only had in flight. It does not wake that pod, and
// the pause of all others counts: pods that fail one after the other would keep each other
// busy.
func (s *clusterState) landed(by types.UID, devices ledger.Freed) {
	if len(devices) == 0 {
		return
	}
	for _, pl := range s.allProfiles() {
		pl.events.WakeForLanded(by, devices)
	}
}

// givenUp wakes the pods that may have waited for an allocation in flight which is not going
// to be written: for its devices, or for the claim.
func (s *clusterState) givenUp(pod *v1.Pod, claim *resourceapi.ResourceClaim, devices ledger.Freed) {
	s.landed(pod.UID, devices)
	if s.ledger.InFlight(claim.UID) != nil {
		return // Others of the pod's group use it.
	}
	for _, pl := range s.allProfiles() {
		pl.events.WakeOthersOf(pod.UID, claim)
	}
}
