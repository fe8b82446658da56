package commitrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/backpressure"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Attempt is one attempt to bind a pod with its claims. Nil is one that has not begun, of which
// nothing has to be undone.
type Attempt struct {
	*Runner
	pod    *v1.Pod
	claims []*Claim
	// state is where the protocol stands. Its claims are in the same order.
	state commit.Attempt
	// alone is set if nobody waits for the pod, and it may wait for others. place is what it has among
	// those whose claims are being written.
	alone bool
	place *backpressure.Place
	// denied is what a guard has denied, nil if nothing.
	denied *denial
	// conflict is set if it has failed with ErrConflict, kept if a claim that has lost keeps its devices:
	// there are no other ones for the pod as long as others use that.
	conflict, kept bool
}

// Begin begins an attempt to commit the claims of a pod.
func (r *Runner) Begin(pod *v1.Pod, claims ...*Claim) *Attempt {
	states := make([]commit.Claim, len(claims))
	for i, claim := range claims {
		states[i].OfGroup = claim.Group != nil
		if claim.Origin != Given {
			states[i].Takes = commit.WholeClaim
		}
	}
	return &Attempt{Runner: r, pod: pod, claims: claims, state: commit.Begin(states...)}
}

// PutInFlight keeps the devices that are planned for one of the claims from others. The error says
// what somebody else holds of them.
func (a *Attempt) PutInFlight(claim *Claim, plan *resourceapi.AllocationResult) error {
	if err := a.State.Ledger.AddInFlight(ledger.RefTo(claim.Object), a.pod.UID, plan); err != nil {
		return err
	}
	claim.flight.plan = plan
	a.state, _ = commit.Step(a.state, commit.Event{Kind: commit.PutInFlight, Claim: slices.Index(a.claims, claim)})
	return nil
}

// Signal tells others what was put in flight.
func (a *Attempt) Signal(claim *Claim) { a.signalInFlight(claim) }

// AwaitRoom waits for a moment if claims of many pods are being written already. It is not for pods of
// gangs, which wait for each other.
func (a *Attempt) AwaitRoom(ctx context.Context) {
	a.alone = true
	if waited := a.State.Writes.Wait(ctx); waited > 0 {
		observeWait(stageRoom, waited)
	}
}

// Enter has the pod count among those whose claims are being written, from when requests for it begin.
// Commit does so at the latest.
func (a *Attempt) Enter() {
	if a != nil && a.alone && a.place == nil {
		a.place = a.State.Writes.Enter()
	}
}

// Commit writes allocations and reservations, then makes sure that nobody else holds the same, and
// waits until the devices are ready on the node. When it returns nil, the server has confirmed for
// every claim that it is allocated as planned and reserved for the pod, also for claims that looked
// like that already: what we saw may be old. Then lastWrite was called, after which nothing is written
// but the binding.
//
// If it fails, what it has done is undone by Abort. The error is ErrConflict, or says what to do.
func (a *Attempt) Commit(ctx context.Context, node string, lastWrite func(context.Context) error) error {
	a.Enter()
	if err := a.run(ctx, commit.Event{Kind: commit.Started}, node, lastWrite); err != nil {
		return err
	}
	if phase := a.phase(); phase != commit.Bind {
		return fmt.Errorf("the pod cannot be bound because the commit protocol has come to phase %q with its claims; trying again", phase.String())
	}
	return nil
}

// Bound ends the attempt because the pod is bound.
func (a *Attempt) Bound(ctx context.Context) {
	_ = a.run(ctx, commit.Event{Kind: commit.PodBound}, "", nil)
}

// Abort undoes what the attempt has done, in reverse order. An allocation that it has written goes as
// well, unless others use it meanwhile: should nobody come back for it, then it would keep devices, or
// be in conflict with a claim in use. A pod that is bound all the same keeps everything. What cannot
// be undone at once goes on in the background, see IsReleasing.
func (a *Attempt) Abort(ctx context.Context) {
	_ = a.run(ctx, commit.Event{Kind: commit.Unreserved}, "", nil)
	switch {
	case a == nil:
	case a.denied != nil:
		a.afterDenial(ctx)
	case a.conflict && !a.kept:
		a.afterConflict()
	}
}

// IsLeft reports whether the next process goes on with what this one has written. Nothing is to be
// undone.
func (a *Attempt) IsLeft() bool { return a.phase() == commit.Left }

func (a *Attempt) phase() commit.Phase {
	if a == nil {
		return commit.Idle
	}
	return a.state.Phase
}

// run goes on with the attempt until there is nothing left to be done, and returns why it
// has failed, if it has.
func (a *Attempt) run(ctx context.Context, event commit.Event, node string, lastWrite func(context.Context) error) error {
	if a == nil {
		return nil
	}
	defer a.place.Done()
	r := &run{Attempt: a, node: node, lastWrite: lastWrite}
	if event.Kind == commit.Started {
		event = r.start(ctx)
	}
	err := r.run(ctx, event)
	a.conflict = a.conflict || errors.Is(err, ErrConflict)
	return err
}
