package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
	"github.com/quartermaster-dra/quartermaster/internal/telemetry/tracing"
)

// run advances an attempt from one call of the scheduler to the next. It carries out the actions of
// internal/commit/protocol, which alone decides the next step, and reports their results.
type run struct {
	*Attempt
	node      string
	lastWrite func(context.Context) error
	// lost are the claims that must yield, each with its conflict.
	lost []lostClaim
	// err is the reason why the attempt has failed.
	err error
}

func (r *run) run(ctx context.Context, event protocol.Event) error {
	for event.Kind != protocol.NoEvent {
		var actions []protocol.Action
		event.Cancelled = ctx.Err() != nil
		r.state, actions = protocol.Step(r.state, event)
		event = protocol.Event{}
		for _, action := range actions {
			var err error
			if event, err = r.do(ctx, action); err != nil {
				r.err = err
			}
		}
	}
	return r.err
}

// do carries out an action. The error explains an event other than success.
func (r *run) do(ctx context.Context, action protocol.Action) (protocol.Event, error) {
	if !takesTime(action.Kind) {
		return r.carryOut(ctx, action)
	}
	ctx, span := tracing.Start(ctx, action.Kind.String())
	if span.Recorded() && isOfClaim(action.Kind) {
		span.Set("claim", klog.KObj(r.claims[action.Claim].Object).String())
	}
	event, err := r.carryOut(ctx, action)
	span.End(err)
	return event, err
}

// takesTime reports whether an action does more than record something in this process.
func takesTime(kind protocol.ActionKind) bool {
	return kind != protocol.EndInFlight && kind != protocol.StayInGroup && kind != protocol.TellConflict
}

// isOfClaim reports whether an action that takes time is about one claim.
func isOfClaim(kind protocol.ActionKind) bool {
	return kind == protocol.WriteClaim || kind == protocol.YieldClaim || kind == protocol.ReleaseClaim || kind == protocol.LeaveGroup
}

func (r *run) carryOut(ctx context.Context, action protocol.Action) (protocol.Event, error) {
	switch action.Kind {
	case protocol.AwaitOthers:
		return then(protocol.Settled, r.settlePlan(ctx))
	case protocol.WriteClaim:
		return then(protocol.Written, r.write(ctx, r.claims[action.Claim]))
	case protocol.AwaitWatch:
		return then(protocol.Seen, r.see(ctx))
	case protocol.CheckOrder:
		return r.check(ctx)
	case protocol.AwaitLateWrites:
		return r.settle(ctx)
	case protocol.AwaitDevices:
		return r.awaitDevices(ctx)
	case protocol.BindPod:
		return then(protocol.NoEvent, r.mayBind(ctx))
	case protocol.TellConflict:
		return protocol.Event{}, r.tellConflict(ctx)
	case protocol.YieldClaim:
		return then(protocol.Yielded, r.yield(ctx, action.Claim))
	default:
		r.end(ctx, action)
		return protocol.Event{}, nil
	}
}

// then returns an event of the given kind, or a Failure if there is an error.
func then(kind protocol.EventKind, err error) (protocol.Event, error) {
	if err != nil {
		kind = protocol.Failure
	}
	return protocol.Event{Kind: kind}, err
}

// end carries out an action that ends the attempt's part in a claim.
func (r *run) end(ctx context.Context, action protocol.Action) {
	claim, state := r.claims[action.Claim], r.state.Claims[action.Claim]
	switch action.Kind {
	case protocol.EndInFlight:
		if state.Phase == protocol.Confirmed {
			r.landed(r.pod, claim)
		} else {
			r.endInFlight(r.pod, claim)
		}
	case protocol.ReleaseClaim:
		r.newRelease(claim, state).start(ctx, action.Background)
	case protocol.LeaveGroup:
		r.leaveGroup(ctx, claim, state)
	case protocol.StayInGroup:
		r.Groups.Bound(claim.Object.UID, r.pod.UID, state, claim.allocation())
	}
}

// awaitDevices waits for binding conditions, which may take minutes. Usually nothing can happen
// meanwhile to a claim that is reserved for the pod. But non-participating schedulers had much time, so
// conflicts are determined again.
func (r *run) awaitDevices(ctx context.Context) (protocol.Event, error) {
	claims := make([]*resourceapi.ResourceClaim, len(r.claims))
	for i, claim := range r.claims {
		claims[i] = claim.Object
	}
	r.place.Leave()
	outcome, err := r.Profile.AwaitDevices(ctx, r.pod, r.node, claims)
	for i, claim := range outcome.Claims {
		r.claims[i].Object = claim
	}
	switch {
	case err != nil && r.Stopping.Err() != nil:
		// The next process finds the claims reserved and continues to wait. Releasing them would
		// discard what drivers have done so far.
		return protocol.Event{Kind: protocol.ProcessEnds}, err
	case err != nil:
		return protocol.Event{Kind: protocol.Failure, Broken: outcome.Broken}, err
	case !outcome.Waited:
		return protocol.Event{Kind: protocol.GotReady}, nil
	}
	r.lost = r.losing(r.Foreign.Settles())
	return r.lastLook(protocol.GotReady)
}

// mayBind is the last step before the pod is bound.
func (r *run) mayBind(ctx context.Context) error {
	// The server cannot refuse the last write for being late, nor the binding, which is next, unlike a write to a claim.
	for _, step := range []func(context.Context) error{r.leads, r.lastWrite, r.leads} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) leads(context.Context) error {
	if err := r.State.Lease.Leads(); err != nil {
		return fmt.Errorf("the pod must not be bound by this process: %w", err)
	}
	return nil
}

// ErrConflict means that a pod is not bound because a conflicting claim was allocated first.
var ErrConflict = errors.New("already allocated to another claim")

// tellConflict counts and logs the claims that yield, and returns why the pod must look for other devices.
func (r *run) tellConflict(ctx context.Context) error {
	for _, claim := range r.lost {
		countRollback(claim.to)
		klog.FromContext(ctx).Info("Rolling back a claim because a conflicting claim was allocated first",
			"pod", klog.KObj(r.pod), "conflict", claim.to.String())
	}
	return fmt.Errorf("%w: %s; looking for other devices", ErrConflict, r.lost[0].to)
}

// yield releases a claim that has lost. If that fails, Abort repeats it until it succeeds.
func (r *run) yield(ctx context.Context, position int) error {
	claim := r.claims[position]
	to := r.lost[slices.IndexFunc(r.lost, func(l lostClaim) bool { return l.Claim == claim })].to
	release := r.newRelease(claim, r.state.Claims[position])
	release.why = "because of a conflict: " + to.String()
	err := release.try(ctx)
	r.kept = r.kept || release.kept
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; releasing it: %w", ErrConflict, to, err)
}

// leaveGroup ends the use of a claim that is reserved for the pod's group. While other pods use the claim,
// it stays as it is for them. The last pod to leave releases everything that any of them has written.
func (r *run) leaveGroup(ctx context.Context, claim *Claim, state protocol.Claim) {
	state, allocation := r.Groups.Leave(claim.Object.UID, r.pod.UID, state, claim.allocation())
	release := r.newRelease(claim, state)
	if release.written == nil {
		release.written = allocation
	}
	release.start(ctx, false)
}
