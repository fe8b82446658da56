package commit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/commit/foreign"
	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

// A Runner carries out the attempts of one profile of the scheduler. It is safe for concurrent use; an
// Attempt is not.
type Runner struct {
	// State holds the plans in flight, the order of allocations, and the lease of this process.
	State *cluster.State
	// Writer writes claims.
	Writer *write.Writer
	// Known holds the latest known states of claims, and knows whether pods use them.
	Known *podclaims.Claims
	// Foreign determines how long claims settle.
	Foreign *foreign.Watch
	// Takeover tracks the reservations of other processes.
	Takeover *Pause
	// Groups holds the claims that are reserved for PodGroups; nil if there can be none.
	Groups Groups
	// Signals is told of what is in flight.
	Signals Signals
	// Profile is the profile whose pods these are.
	Profile Profile
	// Stopping ends when the scheduler does.
	Stopping context.Context

	pending pending
}

// Profile is a profile of the scheduler.
type Profile interface {
	// AwaitDevices waits until the devices of allocated claims are ready on the node.
	AwaitDevices(ctx context.Context, pod *v1.Pod, node string, claims []*resourceapi.ResourceClaim) (binding.Outcome, error)
	// TryAgain has a pod tried again whose attempt was undone a moment ago.
	TryAgain(pod types.UID)
}

// Groups holds the claims that are reserved for a PodGroup and that attempts of this process use. One
// attempt alone does not decide about the release of such a claim, see protocol.Group.
type Groups interface {
	// Leave ends the use by a pod whose attempt failed. It returns what the pod must release, and the
	// allocation to remove with it. Released must be called after the release.
	Leave(claim, pod types.UID, state protocol.Claim, allocation *resourceapi.AllocationResult) (protocol.Claim, *resourceapi.AllocationResult)
	// BeginRelease prevents pods from using the claim, unless one does already; then it returns false.
	BeginRelease(claim types.UID) bool
	// Released ends the release that Leave or BeginRelease began.
	Released(claim types.UID)
	// Bound ends the use by a bound pod.
	Bound(claim, pod types.UID, state protocol.Claim, allocation *resourceapi.AllocationResult)
}

// Signals announces plans in flight to others.
type Signals interface {
	// InFlight announces the plan of a claim; created is false for a claim that exists only in memory.
	// It returns the UID to pass to Written or GivenUp, "" if nothing was announced.
	InFlight(claim *resourceapi.ResourceClaim, planned *resourceapi.AllocationResult, created bool) types.UID
	// Written reports that the claim was written, and GivenUp that its plan was given up.
	Written(told types.UID, written *resourceapi.ResourceClaim)
	GivenUp(told types.UID)
}

// Observe makes the result of a write known in this process before the informer does: in the ledger, and
// to all users of the scheduler's shared claim manager. left is nil if the claim is gone.
func (r *Runner) Observe(ctx context.Context, claim, left *resourceapi.ResourceClaim) {
	if left == nil {
		r.State.Freed(r.State.Ledger.Gone(claim.UID))
		return
	}
	r.State.Freed(r.State.Ledger.Observe(left))
	if err := r.Known.Tracked.AssumeClaimAfterAPICall(left); err != nil {
		// Not a problem: the informer was faster, or the claim is gone.
		klog.FromContext(ctx).V(5).Info("Claim not stored in assume cache", "claim", klog.KObj(left), "err", err)
	}
}

// Keeps reports whether a claim of a pod must not be changed yet: because of an attempt, or of another process.
func (r *Runner) Keeps(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return r.IsReleasing(pod.UID) || r.Takeover.FoundReserved(claim, pod.UID, pod)
}

// IsReleasing reports whether the writes of a pod's failed attempt are still being released. The pod
// must not be tried again before that has ended.
func (r *Runner) IsReleasing(pod types.UID) bool { return r.pending.has(pod) }
