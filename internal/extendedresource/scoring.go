package extendedresource

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

// Scoring tells the scheduler's manager of claims what is in flight.
//
// NodeResourcesFit and NodeResourcesBalancedAllocation can be configured to score nodes by
// extended resources. Where devices back these, they count what is allocated in the
// manager. The ledger is not known to them, so what is in flight has to be told there as well:
// from Reserve until the manager knows the written claim.
//
// They only do so for pods that ask for such resources. Until Begin is called for one of these,
// nothing is told. It is safe for concurrent use.
type Scoring struct {
	// Claims is the manager.
	Claims fwk.ResourceClaimTracker
	// Stopping ends when the scheduler does.
	Stopping context.Context

	begun atomic.Bool
}

// unwrittenClaimName is the name by which the manager recognises a claim that does not
// exist yet; it looks up all others.
const unwrittenClaimName = "<extended-resources>"

// ManagerInterval is how often to look whether the manager knows a claim that was just
// created, and managerPatience for how long. It hears of it from the informer.
const (
	ManagerInterval = 100 * time.Millisecond
	managerPatience = 2 * time.Minute
)

// Begin has the manager be told from now on.
func (s *Scoring) Begin() { s.begun.Store(true) }

// InFlight tells the manager what a claim is about to get; created is false for one that exists
// only in memory. It returns the UID by which Written or GivenUp has to end that, "" if nothing
// was told.
func (s *Scoring) InFlight(claim *resourceapi.ResourceClaim, planned *resourceapi.AllocationResult, created bool) types.UID {
	if !s.begun.Load() {
		return ""
	}
	told := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
		Status:     resourceapi.ResourceClaimStatus{Allocation: planned},
	}
	if !created {
		told.Name = unwrittenClaimName
	}
	// It fails if the claim is gone, which PreBind will find out.
	if s.Claims.SignalClaimPendingAllocation(claim.UID, told) != nil {
		return ""
	}
	return claim.UID
}

// Written tells the manager that the claim was written. It must be known there as allocated
// before it is not in flight any more. It does not block.
func (s *Scoring) Written(told types.UID, written *resourceapi.ResourceClaim) {
	if told == "" {
		return
	}
	if s.knows(written) {
		s.GivenUp(told)
		return
	}
	go func() {
		defer s.GivenUp(told)
		// A claim that never gets there was deleted at once.
		_ = wait.PollUntilContextTimeout(s.Stopping, ManagerInterval, managerPatience, false, func(context.Context) (bool, error) {
			return s.knows(written), nil
		})
	}()
}

// knows makes the manager take over a claim that was written. It cannot as long as the
// informer has not delivered an earlier state.
func (s *Scoring) knows(claim *resourceapi.ResourceClaim) bool {
	return !errors.Is(s.Claims.AssumeClaimAfterAPICall(claim), assumecache.ErrNotFound)
}

// GivenUp tells the manager that nothing is in flight any more.
func (s *Scoring) GivenUp(told types.UID) {
	if told != "" {
		s.Claims.MaybeRemoveClaimPendingAllocation(told, false)
	}
}
