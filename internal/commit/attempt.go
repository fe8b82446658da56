package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/limiter"
	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// An Attempt is one attempt to bind a pod with its claims. A nil Attempt has not begun, and has nothing to undo.
type Attempt struct {
	*Runner
	pod    *v1.Pod
	claims []*Claim
	// state is the state of the commit protocol. Its claims are in the same order.
	state protocol.Attempt
	// alone is set if no other pod waits for this one, so that it may wait for others. place is its
	// place among the pods whose claims are being written.
	alone bool
	place *limiter.Slot
	// over is set once the attempt has been counted as ended, and writes once it has been counted as one that writes.
	over, writes bool
	// denied is the plan that a guard has denied, nil if there is none.
	denied *denial
	// conflict is set if it has failed with ErrConflict, kept if a claim that has lost keeps its devices:
	// there are no other ones for the pod as long as others use that.
	conflict, kept bool
}

// Begin begins an attempt to commit the claims of a pod. It must end with Bound or Abort.
func (r *Runner) Begin(pod *v1.Pod, claims ...*Claim) *Attempt {
	states := make([]protocol.Claim, len(claims))
	for i, claim := range claims {
		states[i].OfGroup = claim.Group != nil
		if claim.Origin != Given {
			states[i].Takes = protocol.WholeClaim
		}
	}
	r.pending.tries(pod.UID, 1)
	return &Attempt{Runner: r, pod: pod, claims: claims, state: protocol.Begin(states...)}
}

// PutInFlight keeps the devices that are planned for one of the claims from others. The error says
// which of them another claim holds.
func (a *Attempt) PutInFlight(claim *Claim, plan *resourceapi.AllocationResult) error {
	if err := a.State.Ledger.AddInFlight(ledger.RefTo(claim.Object), a.pod.UID, plan); err != nil {
		return err
	}
	claim.flight.plan = plan
	a.state, _ = protocol.Step(a.state, protocol.Event{Kind: protocol.PutInFlight, Claim: slices.Index(a.claims, claim)})
	return nil
}

// Signal tells others what was put in flight.
func (a *Attempt) Signal(claim *Claim) { a.signalInFlight(claim) }

// AwaitRoom waits for a moment if the claims of many pods are being written already. Pods of gangs must
// not call it, because they wait for each other.
func (a *Attempt) AwaitRoom(ctx context.Context) {
	a.alone = true
	if waited := a.State.Writes.Wait(ctx); waited > 0 {
		observeWait(stageRoom, waited)
	}
}

// Enter counts the pod among those whose claims are being written. It must be called before the first
// request for the pod; otherwise Commit calls it.
func (a *Attempt) Enter() {
	if a != nil && a.alone && a.place == nil {
		a.place = a.State.Writes.Enter()
	}
}

// Commit writes allocations and reservations, checks that no other claim holds the same devices, and
// waits until the devices are ready on the node. When it returns nil, the server has confirmed for
// every claim that it is allocated as planned and reserved for the pod. This includes claims that
// looked like that already, because this process may have seen an old state. Before that, lastWrite was
// called; after it nothing is written but the binding.
//
// If Commit fails, Abort undoes its writes. The error wraps ErrConflict, or tells the user what to do.
func (a *Attempt) Commit(ctx context.Context, node string, lastWrite func(context.Context) error) error {
	if a != nil && a.IsReleasing(a.pod.UID) {
		return errors.New("the pod's claims are being released because it seemed to wait; trying again")
	}
	a.Enter()
	if a != nil && !a.writes {
		a.writes = true
		a.pending.writing(a.pod.UID, 1)
	}
	if err := a.run(ctx, protocol.Event{Kind: protocol.Started}, node, lastWrite); err != nil {
		return err
	}
	if phase := a.phase(); phase != protocol.Bind {
		return fmt.Errorf("the pod cannot be bound because the commit protocol has come to phase %q with its claims; trying again", phase.String())
	}
	return nil
}

// Bound ends the attempt because the pod is bound.
func (a *Attempt) Bound(ctx context.Context) {
	_ = a.run(ctx, protocol.Event{Kind: protocol.PodBound}, "", nil)
	a.finish()
}

// finish counts the attempt as ended, once.
func (a *Attempt) finish() {
	if a != nil && !a.over {
		a.over = true
		a.pending.tries(a.pod.UID, -1)
		if a.writes {
			a.pending.writing(a.pod.UID, -1)
		}
	}
}

// Abort undoes the attempt, in reverse order. It also removes an allocation that the attempt has
// written, unless other consumers use it meanwhile: if the pod never came back, the claim would keep
// devices, or be in conflict with a claim in use. A pod that is bound nevertheless keeps everything. A
// rollback that does not succeed at once continues in the background, see IsReleasing.
func (a *Attempt) Abort(ctx context.Context) {
	_ = a.run(ctx, protocol.Event{Kind: protocol.Unreserved}, "", nil)
	a.finish()
	switch {
	case a == nil:
	case a.denied != nil:
		a.afterDenial(ctx)
	case a.conflict && !a.kept:
		a.afterConflict()
	}
}

// IsLeft reports whether the next process continues with what this one has written. Then nothing must be undone.
func (a *Attempt) IsLeft() bool { return a.phase() == protocol.Left }

func (a *Attempt) phase() protocol.Phase {
	if a == nil {
		return protocol.Idle
	}
	return a.state.Phase
}

// run advances the attempt until there is nothing left to do. It returns why the attempt has failed, if it has.
func (a *Attempt) run(ctx context.Context, event protocol.Event, node string, lastWrite func(context.Context) error) error {
	if a == nil {
		return nil
	}
	defer a.place.Done()
	r := &run{Attempt: a, node: node, lastWrite: lastWrite}
	if event.Kind == protocol.Started {
		event = r.start(ctx)
	}
	err := r.run(ctx, event)
	a.conflict = a.conflict || errors.Is(err, ErrConflict)
	return err
}
