package commit

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
)

// release is the release of one claim of a failed attempt. Its state determines what to undo. It may
// outlive the attempt.
//
// The pod must not be tried again until it is done: a late release would remove the reservation of the
// new attempt.
type release struct {
	*Runner
	pod   *v1.Pod
	state protocol.Claim
	// claim is a copy; it owns the in-flight allocation.
	claim Claim
	// written is the allocation to remove, if there is one, and why is the reason for removing it.
	written *resourceapi.AllocationResult
	why     string
	// unbound is the evidence that allows the release, from the latest question.
	unbound write.Unbound
	// kept is set if the claim has its allocation still when the release is done: others use it.
	kept bool
}

// newRelease moves the duty to undo a claim from the attempt to a release, so that it is done only once.
func (a *Attempt) newRelease(claim *Claim, state protocol.Claim) *release {
	r := &release{Runner: a.Runner, pod: a.pod, state: state, claim: *claim, written: claim.allocation(),
		why: "because pod " + a.pod.Name + " was not bound"}
	claim.flight = flight{}
	return r
}

// start carries out the release. If the server cannot be reached, the release continues in the background.
//
// For pods that are preempted, it begins in the background: until Unreserve returns, they still count
// on their node. Meanwhile the preemptor is tried again, preempts them once more, now by deletion, and
// may wait for an event that does not come.
func (r *release) start(ctx context.Context, background bool) {
	switch {
	case r.state.Phase == protocol.Untouched && r.state.InFlight:
		r.endInFlight(r.pod, &r.claim)
	case r.state.Phase == protocol.Untouched:
	case background || !r.tryOrTell(ctx):
		r.later(ctx, background)
	}
}

// UndoInterval is the pause between attempts to release a claim while the server cannot be reached.
const UndoInterval = 5 * time.Second

// later continues in the background, at once or after a pause.
func (r *release) later(ctx context.Context, atOnce bool) {
	r.pending.begin(r.pod.UID)
	go func() {
		// Outlives the cycle, whose context ends now.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(r.Stopping, cancel)()
		_ = wait.PollUntilContextCancel(ctx, UndoInterval, atOnce, func(ctx context.Context) (bool, error) {
			return r.tryOrTell(ctx), nil
		})
		r.pending.end(r.pod.UID)
		// Others that waited have been woken when the ledger changed.
		r.Profile.TryAgain(r.pod.UID)
	}()
}

// tryOrTell does the same as try, but logs the error. It reports whether the claim is released.
func (r *release) tryOrTell(ctx context.Context) bool {
	if err := r.try(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot roll back the reservation of a claim; trying again",
			"claim", klog.KObj(r.claim.Object), "pod", klog.KObj(r.pod))
		return false
	}
	if r.claim.Group != nil {
		r.Groups.Released(r.claim.Object.UID)
	}
	return true
}

// try runs the release once. After an error, it must be repeated.
func (r *release) try(ctx context.Context) error {
	event, err := r.ask(ctx)
	for {
		var action protocol.ActionKind
		r.state, action = r.state.Step(event)
		switch action {
		case protocol.TryAgain:
			return err
		case protocol.NoAction:
			return nil
		case protocol.EndInFlight:
			r.endInFlight(r.pod, &r.claim)
			return nil
		}
		if err = r.carryOut(ctx, action); err != nil {
			event = protocol.NotDone
		} else {
			event = protocol.Done
		}
	}
}

// ask determines whether the claim is needed: by a bound pod, or by a pod whose binding a previous
// process may have sent.
func (r *release) ask(ctx context.Context) (protocol.ClaimEvent, error) {
	unbound, err := r.Writer.Ask(ctx, r.claim.Object, r.claim.Consumer(r.pod))
	switch {
	case errors.Is(err, write.ErrBound):
		return protocol.InUse, nil
	case err != nil:
		return protocol.NotDone, err
	case r.Takeover.LeavesAlone(r.claim.Object.UID, r.claim.Consumer(r.pod).UID, r.pod):
		klog.FromContext(ctx).Info("Leaving a claim reserved for now: another process may have sent the pod's binding",
			"claim", klog.KObj(r.claim.Object), "pod", klog.KObj(r.pod), "until", r.Takeover.Left())
		return protocol.InUse, nil
	default:
		r.unbound = unbound
		return protocol.NotInUse, nil
	}
}

// carryOut asks the server to release the claim, or asks it what was written.
func (r *release) carryOut(ctx context.Context, action protocol.ActionKind) (err error) {
	claim := r.claim.Object
	ctx = write.Because(ctx, write.Cause{Pod: r.pod, Why: r.why})
	switch action {
	case protocol.DeleteClaim:
		if r.claim.Origin == ToMake {
			claim, err = extended.RemoveUncreated(ctx, r.Writer, r.pod, claim, r.unbound)
		} else {
			claim, err = r.Writer.Remove(ctx, claim, r.unbound)
		}
	case protocol.RollBackReservation:
		claim, err = r.Writer.Unreserve(ctx, claim, r.unbound)
	case protocol.RollBackAllocation:
		if !r.claim.IsAllocated() { // The write returned an error, but the server may have carried it out.
			claim = claim.DeepCopy()
			claim.Status.Allocation = r.written
		}
		claim, err = r.Writer.Release(ctx, claim, r.unbound)
	default:
		if r.claim.Origin == ToMake { // If the pod is bound with it, then by another attempt.
			claim = nil
		} else {
			claim, err = r.Writer.Settle(ctx, claim)
		}
	}
	if err == nil {
		r.kept = claim != nil && claim.Status.Allocation != nil
		r.Observe(ctx, r.claim.Object, claim)
	}
	return err
}

// IsTried reports whether an attempt to schedule a pod has reserved its claims and has not ended.
func (r *Runner) IsTried(pod types.UID) bool { return r.pending.isTried(pod) }

// Writes reports whether an attempt for a pod, which has not ended, has begun to write claims.
func (r *Runner) Writes(pod types.UID) bool { return r.pending.hasWritten(pod) }
