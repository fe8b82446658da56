package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// PlanAgain implements preemption.Preemptors. It has a pod of any profile tried again that waits for a claim which others use on: it
// evicts these as well, or gives up what is kept for it.
func (pl ownProfile) PlanAgain(preemptor types.UID) {
	for _, own := range pl.state.served() {
		entry := own.waiting.Get(preemptor)
		if entry == nil {
			continue
		}
		if gang := crd.KeyOf(entry.Latest()); gang != "" {
			pl.state.gangs.Stir(gang)
			return
		}
		own.waker.WakeAfterPause(entry)
		return
	}
	// The pods of a gang that does not fit are not tried one by one.
	if nomination := pl.state.nominations.Of(preemptor); nomination != nil && nomination.Group != "" {
		pl.state.gangs.Stir(nomination.Group)
	}
}

// ClaimFreed implements preemption.Preemptors. It has a pod tried again if devices that it is to get do not exist any more: no event of a device
// wakes it then.
func (pl ownProfile) ClaimFreed(preemptor types.UID) {
	nomination := pl.state.nominations.Of(preemptor)
	if nomination == nil {
		return
	}
	for _, use := range nomination.Plan {
		for result := range ledger.Used(use.Allocation) {
			if pool := pl.state.Pool(ledger.PoolOf(result)); pool == nil || pool.Device(result.Device) == nil {
				pl.PlanAgain(preemptor)
				return
			}
		}
	}
}

// awaitRelease requests the deallocation of claims for a pod, as soon as they have no users: those about to be
// deallocated, and those of the pod's victims.
func (pl *Quartermaster) awaitRelease(c *cycle, pod *v1.Pod) {
	claims := pl.reclaimable(c).Ending()
	if nomination := pl.state.nominations.Of(pod.UID); nomination != nil {
		claims = append(claims, nomination.Awaited...)
	}
	pl.release.Await(pod.UID, claims...)
}

// TryAgain implements commit.Profile. It has a pod tried again whose attempt was undone a moment ago.
func (pl ownProfile) TryAgain(pod types.UID) {
	if entry := pl.waiting.Get(pod); entry != nil {
		pl.waker.TryAgain(entry)
	}
}
