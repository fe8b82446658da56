package quartermaster

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// NodeResourcesFit and NodeResourcesBalancedAllocation can be configured to score nodes by
// extended resources. Where devices serve these, they count what is allocated in the
// scheduler's manager of claims. The ledger is not known to them, so what is in flight has
// to be told there as well: from Reserve until the manager knows the written claim.
//
// They only do so for pods that ask for such resources. Until one of these comes along,
// nothing is told.
type scoring struct {
	needed atomic.Bool
}

// unwrittenClaimName is the name by which the manager recognises a claim that does not
// exist yet; it looks up all others.
const unwrittenClaimName = "<extended-resources>"

// How often, and for how long, to look whether the manager knows a claim that was just
// created. It hears of it from the informer.
const (
	managerInterval = 100 * time.Millisecond
	managerPatience = 2 * time.Minute
)

func (pl *Quartermaster) managedClaims() fwk.ResourceClaimTracker {
	return pl.handle.SharedDRAManager().ResourceClaims()
}

// signalInFlight tells the manager what a claim is about to get.
func (pl *Quartermaster) signalInFlight(podClaim *podClaim) {
	if !pl.scoring.needed.Load() {
		return
	}
	claim := podClaim.claim
	told := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
		Status:     resourceapi.ResourceClaimStatus{Allocation: podClaim.planned},
	}
	if podClaim.special != nil && !podClaim.special.created {
		told.Name = unwrittenClaimName
	}
	// It fails if the claim is gone, which PreBind will find out.
	if err := pl.managedClaims().SignalClaimPendingAllocation(claim.UID, told); err == nil {
		podClaim.signalled = claim.UID
	}
}

// signalWritten tells the manager that the claim was written. It must be known there as
// allocated before it is not in flight any more.
func (pl *Quartermaster) signalWritten(podClaim *podClaim) {
	if podClaim.signalled == "" {
		return
	}
	uid, written := podClaim.signalled, podClaim.claim
	podClaim.signalled = ""
	if pl.managerKnows(written) {
		pl.endSignal(uid)
		return
	}
	go func() {
		defer pl.endSignal(uid)
		// A claim that never gets there was deleted at once.
		_ = wait.PollUntilContextTimeout(pl.stopping, managerInterval, managerPatience, false, func(context.Context) (bool, error) {
			return pl.managerKnows(written), nil
		})
	}()
}

// managerKnows makes the manager take over a claim that was written. It cannot as long as
// the informer has not delivered an earlier state.
func (pl *Quartermaster) managerKnows(claim *resourceapi.ResourceClaim) bool {
	return !errors.Is(pl.managedClaims().AssumeClaimAfterAPICall(claim), assumecache.ErrNotFound)
}

// signalGivenUp tells the manager that nothing will come of what was in flight.
func (pl *Quartermaster) signalGivenUp(podClaim *podClaim) {
	if podClaim.signalled != "" {
		pl.endSignal(podClaim.signalled)
		podClaim.signalled = ""
	}
}

func (pl *Quartermaster) endSignal(uid types.UID) {
	pl.managedClaims().MaybeRemoveClaimPendingAllocation(uid, false)
}
