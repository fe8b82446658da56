package commitrunner

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
	"github.com/quartermaster-dra/quartermaster/internal/clusterstate"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/contest"
	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
	"github.com/quartermaster-dra/quartermaster/internal/takeover"
)

// Runner carries out the attempts of one profile of the scheduler. It is safe for concurrent use;
// an Attempt is not.
type Runner struct {
	// State has what is in flight, the order of allocations, and the lease of this process.
	State *clusterstate.State
	// Writer writes claims.
	Writer *claimwriter.Writer
	// Known has the latest known states of claims, and whether pods use them.
	Known *podclaims.Claims
	// Contest says for how long claims settle.
	Contest *contest.Contest
	// Takeover says what another process has reserved.
	Takeover *takeover.Pause
	// Groups has the claims that are reserved for PodGroups; nil if there can be none.
	Groups Groups
	// Maker makes claims.
	Maker Maker
	// Signals is told of what is in flight.
	Signals Signals
	// AwaitDevices waits until the devices of allocated claims are ready on the node.
	AwaitDevices func(ctx context.Context, pod *v1.Pod, node string, claims []*resourceapi.ResourceClaim) (Readiness, error)
	// IsNeeded asks the server whether a pod that is bound needs the reservation under which the
	// pod has written to the claim. It goes on when ctx gets cancelled.
	IsNeeded func(ctx context.Context, pod *v1.Pod, claim *Claim) (bool, error)
	// TryAgain has a pod tried again whose attempt was undone a moment ago.
	TryAgain func(pod types.UID)
	// Stopping ends when the scheduler does.
	Stopping context.Context

	pending pending
}

// Readiness is how a wait for devices has ended.
type Readiness struct {
	// Claims are those of the pod in their latest state, in the same order.
	Claims []*resourceapi.ResourceClaim
	// Waited is set if a device was not ready from the start.
	Waited bool
	// Broken are the claims whose devices do not get ready, by their positions.
	Broken []int
}

// Groups are the claims that are reserved for a PodGroup and that attempts of this process use. What
// becomes of such a claim is not up to one attempt alone, see commit.Group.
type Groups interface {
	// Leave ends a pod's use because its attempt failed, and returns what the pod has to release,
	// and which allocation goes with it. After the release, Released has to be called.
	Leave(claim, pod types.UID, state commit.Claim, allocation *resourceapi.AllocationResult) (commit.Claim, *resourceapi.AllocationResult)
	// Released ends what Leave began.
	Released(claim types.UID)
	// Bound ends a pod's use because it is bound.
	Bound(claim, pod types.UID, state commit.Claim, allocation *resourceapi.AllocationResult)
}

// Maker makes claims for pods.
type Maker interface {
	// Create creates a claim that is only in memory. It returns the claim of the pod that exists
	// then, nil if there is none; with an error also one that is not good for the pod.
	Create(ctx context.Context, pod *v1.Pod, wanted *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	// RemoveUncreated deletes a claim of which it is not known whether Create has created it. It
	// returns the claim if somebody else keeps it from going, else nil.
	RemoveUncreated(ctx context.Context, pod *v1.Pod, wanted *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
}

// Signals tells others what is in flight.
type Signals interface {
	// InFlight tells what a claim is about to get; created is false for one that is only in memory.
	// It returns the UID by which Written or GivenUp has to end that, "" if nothing was told.
	InFlight(claim *resourceapi.ResourceClaim, planned *resourceapi.AllocationResult, created bool) types.UID
	// Written tells that the claim was written, and GivenUp that nothing comes of it.
	Written(told types.UID, written *resourceapi.ResourceClaim)
	GivenUp(told types.UID)
}

// Observe makes the result of a write known here before the informer does: in the
// ledger, and to all who look at claims through the scheduler's shared manager.
func (r *Runner) Observe(ctx context.Context, claim *resourceapi.ResourceClaim) {
	r.State.Freed(r.State.Ledger.Observe(claim))
	if err := r.Known.Tracked.AssumeClaimAfterAPICall(claim); err != nil {
		// Not a problem: the informer was faster, or the claim is gone.
		klog.FromContext(ctx).V(5).Info("Claim not stored in assume cache", "claim", klog.KObj(claim), "err", err)
	}
}

// IsReleasing reports whether what a failed attempt of a pod has written is still being released. The
// pod must not be tried again before.
func (r *Runner) IsReleasing(pod types.UID) bool { return r.pending.has(pod) }
