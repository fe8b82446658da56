package extended

import (
	"context"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Scoring tells the scheduler's claim manager about allocations in flight.
//
// NodeResourcesFit and NodeResourcesBalancedAllocation can be configured to score nodes by extended
// resources. Where devices back these, they count the allocations in the manager. They do not know
// the ledger, so the manager must be told about allocations in flight, from Reserve until it knows
// the written claim.
//
// They only do so for pods that ask for extended resources. Until Begin is called for such a pod,
// the manager is not told. Scoring is safe for concurrent use.
type Scoring struct {
	// Claims is the scheduler's claim manager.
	Claims fwk.ResourceClaimTracker
	// Stopping ends when the scheduler stops.
	Stopping context.Context

	begun atomic.Bool
}

// unwrittenClaimName is the name by which the manager recognises a claim that does not exist yet;
// it looks up all other names.
const unwrittenClaimName = "<extended-resources>"

// ManagerInterval is the interval at which to check whether the manager knows a new claim, and
// managerPatience the time limit. The manager receives the claim from the informer.
const (
	ManagerInterval = 100 * time.Millisecond
	managerPatience = 2 * time.Minute
)

// Begin makes Scoring tell the manager from now on.
func (s *Scoring) Begin() { s.begun.Store(true) }

// InFlight tells the manager about the planned allocation of a claim; created is false for a claim
// that exists only in memory. It returns the UID to pass to Written or GivenUp, "" if the manager
// was not told.
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
	// It fails if the claim is gone; PreBind detects that.
	if s.Claims.SignalClaimPendingAllocation(claim.UID, told) != nil {
		return ""
	}
	return claim.UID
}

// Written tells the manager that the claim was written. The manager must know the allocated claim
// before the in-flight allocation ends. Written does not block.
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
		// A claim that never arrives was deleted at once.
		_ = wait.PollUntilContextTimeout(s.Stopping, ManagerInterval, managerPatience, false, func(context.Context) (bool, error) {
			return s.knows(written), nil
		})
	}()
}

// knows makes the manager take over a written claim. That fails until the informer has delivered an
// earlier state of the claim.
func (s *Scoring) knows(claim *resourceapi.ResourceClaim) bool {
	return !kube.IsNotAssumable(s.Claims.AssumeClaimAfterAPICall(claim))
}

// GivenUp tells the manager that the allocation is no longer in flight.
func (s *Scoring) GivenUp(told types.UID) {
	if told != "" {
		s.Claims.MaybeRemoveClaimPendingAllocation(told, false)
	}
}
