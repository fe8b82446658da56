package quartermaster

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// release is one claim of a failed attempt whose state says what has to be undone. It may
// outlive the attempt.
//
// Until it is done the pod must not be tried again: a late release would take away the
// reservation of the new attempt.
type release struct {
	pl    *Quartermaster
	pod   *v1.Pod
	state commit.Claim
	// podClaim is a copy, whose are the plan and what was told about it.
	podClaim
	// written is the allocation that goes, if one does.
	written *resourceapi.AllocationResult
}

// newRelease moves the duty to undo what was done for a claim to a release, so that it is
// done once.
func (pl *Quartermaster) newRelease(pod *v1.Pod, claim *podClaim, state commit.Claim) *release {
	r := &release{pl: pl, pod: pod, state: state, podClaim: *claim, written: claim.allocation()}
	claim.planned, claim.signalled = nil, ""
	return r
}

// allocation is the one that was written for the claim, or may have been.
func (c *podClaim) allocation() *resourceapi.AllocationResult {
	if c.allocated() {
		return c.claim.Status.Allocation
	}
	return c.planned
}

// start carries the release out. If the server cannot be reached, that goes on in the
// background.
//
// It begins there for pods that are preempted: until Unreserve returns, they still count on
// their node. Whoever preempts them is tried again meanwhile, preempts them once more, now
// by deletion, and may wait for an event that does not come.
func (r *release) start(ctx context.Context, background bool) {
	switch {
	case r.state.Phase == commit.Untouched && r.state.InFlight:
		r.pl.endInFlight(r.pod, &r.podClaim)
	case r.state.Phase == commit.Untouched:
	case background || !r.tryOrTell(ctx):
		r.later(ctx, background)
	}
}

// undoInterval is the pause between attempts to release a claim when the server cannot be
// reached.
const undoInterval = 5 * time.Second

// later goes on in the background, at once or after a pause.
func (r *release) later(ctx context.Context, atOnce bool) {
	r.pl.undoing.begin(r.pod.UID)
	go func() {
		// Outlives the cycle, whose context ends now.
		ctx := context.WithoutCancel(ctx)
		_ = wait.PollUntilContextCancel(ctx, undoInterval, atOnce, func(ctx context.Context) (bool, error) {
			return r.tryOrTell(ctx), nil
		})
		r.pl.undoing.end(r.pod.UID)
		// Others that waited have been woken when the ledger changed.
		r.pl.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{r.pod.Namespace + "/" + r.pod.Name: r.pod})
	}()
}

// tryOrTell is try, and reports whether the claim is released.
func (r *release) tryOrTell(ctx context.Context) bool {
	if err := r.try(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot roll back the reservation of a claim; trying again",
			"claim", klog.KObj(r.claim), "pod", klog.KObj(r.pod))
		return false
	}
	if r.group != nil {
		r.pl.groups.Released(r.claim.UID)
	}
	return true
}

// try goes through the release once. With an error, it has to be tried again.
func (r *release) try(ctx context.Context) error {
	event, err := r.ask(ctx)
	for {
		var action commit.ActionKind
		r.state, action = r.state.Step(event)
		switch action {
		case commit.TryAgain:
			return err
		case commit.NoAction:
			return nil
		case commit.EndInFlight:
			r.pl.endInFlight(r.pod, &r.podClaim)
			return nil
		}
		if err = r.carryOut(ctx, action); err != nil {
			event = commit.NotDone
		} else {
			event = commit.Done
		}
	}
}

// ask finds out whether the claim is needed: by a pod that is bound, or may get bound by a
// process that was there before.
func (r *release) ask(ctx context.Context) (commit.ClaimEvent, error) {
	used, err := r.pl.isInUse(ctx, r.pod, &r.podClaim)
	switch {
	case err != nil:
		return commit.NotDone, err
	case used:
		return commit.InUse, nil
	case r.pl.takeover.LeavesAlone(r.claim.UID, r.consumer(r.pod).UID, r.pod):
		klog.FromContext(ctx).Info("Leaving a claim reserved for now: another process may have sent the pod's binding",
			"claim", klog.KObj(r.claim), "pod", klog.KObj(r.pod), "until", r.pl.takeover.Left())
		return commit.InUse, nil
	default:
		return commit.NotInUse, nil
	}
}

// carryOut asks the server to release the claim, or for what was written.
func (r *release) carryOut(ctx context.Context, action commit.ActionKind) (err error) {
	claim, consumer := r.claim, r.consumer(r.pod).UID
	switch action {
	case commit.TakeClaim:
		claim, err = r.pl.undoSpecial(ctx, r.pod, &r.podClaim)
	case commit.TakeReservation:
		claim, err = r.pl.writer.Unreserve(ctx, claim, consumer)
	case commit.TakeAllocation:
		if !r.allocated() { // The write failed, and may have been carried out.
			claim = claim.DeepCopy()
			claim.Status.Allocation = r.written
		}
		claim, err = r.pl.writer.Release(ctx, claim, consumer)
	default:
		if r.special != nil {
			claim, err = r.pl.settleSpecial(ctx, &r.podClaim)
		} else {
			claim, err = r.pl.writer.Settle(ctx, claim)
		}
	}
	switch {
	case err != nil:
	case claim != nil:
		r.pl.observe(ctx, claim)
	default:
		r.pl.state.Freed(r.pl.state.Ledger.Gone(r.claim.UID))
	}
	return err
}

// pendingUndos knows the pods of which a failed attempt is still being undone in
// the background. It counts claims: each is undone by itself.
type pendingUndos struct {
	mutex  sync.Mutex
	claims map[types.UID]int // by UID of the pod, never 0
}

func newPendingUndos() *pendingUndos { return &pendingUndos{claims: make(map[types.UID]int)} }

func (p *pendingUndos) begin(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claims[pod]++
}

// end is called once for each begin.
func (p *pendingUndos) end(pod types.UID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.claims[pod]--
	if p.claims[pod] == 0 {
		delete(p.claims, pod)
	}
}

func (p *pendingUndos) has(pod types.UID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.claims[pod] > 0
}
