package commitrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/spans"
)

// run goes on with an attempt from one call of the scheduler to the next. What internal/commit
// says is to be done, it does, and tells the result. What comes next is decided there alone.
type run struct {
	*Attempt
	node      string
	lastWrite func(context.Context) error
	// lost are the claims that have to yield, and to which others.
	lost []lostClaim
	// err is why the attempt has failed.
	err error
}

func (r *run) run(ctx context.Context, event commit.Event) error {
	for event.Kind != commit.NoEvent {
		var actions []commit.Action
		event.Cancelled = ctx.Err() != nil
		r.state, actions = commit.Step(r.state, event)
		event = commit.Event{}
		for _, action := range actions {
			var err error
			if event, err = r.do(ctx, action); err != nil {
				r.err = err
			}
		}
	}
	return r.err
}

// do carries out an action. If there is an error, it says why the event is none of those
// that were to be hoped for.
func (r *run) do(ctx context.Context, action commit.Action) (commit.Event, error) {
	if !takesTime(action.Kind) {
		return r.carryOut(ctx, action)
	}
	ctx, span := spans.Start(ctx, action.Kind.String())
	if span.Recorded() && isOfClaim(action.Kind) {
		span.Set("claim", klog.KObj(r.claims[action.Claim].Object).String())
	}
	event, err := r.carryOut(ctx, action)
	span.End(err)
	return event, err
}

// takesTime reports whether an action is more than to take note of something here.
func takesTime(kind commit.ActionKind) bool {
	return kind != commit.EndInFlight && kind != commit.StayInGroup && kind != commit.TellConflict
}

// isOfClaim reports whether an action that takes time is about one claim.
func isOfClaim(kind commit.ActionKind) bool {
	return kind == commit.WriteClaim || kind == commit.YieldClaim || kind == commit.ReleaseClaim || kind == commit.LeaveGroup
}

func (r *run) carryOut(ctx context.Context, action commit.Action) (commit.Event, error) {
	switch action.Kind {
	case commit.AwaitOthers:
		return then(commit.Settled, r.settlePlan(ctx))
	case commit.WriteClaim:
		return then(commit.Written, r.write(ctx, r.claims[action.Claim]))
	case commit.AwaitWatch:
		return then(commit.Seen, r.see(ctx))
	case commit.CheckOrder:
		return r.check(ctx)
	case commit.AwaitLateWrites:
		return r.settle(ctx)
	case commit.AwaitDevices:
		return r.awaitDevices(ctx)
	case commit.BindPod:
		return then(commit.NoEvent, r.mayBind(ctx))
	case commit.TellConflict:
		return commit.Event{}, r.tellConflict(ctx)
	case commit.YieldClaim:
		return then(commit.Yielded, r.yield(ctx, action.Claim))
	default:
		r.end(ctx, action)
		return commit.Event{}, nil
	}
}

// then is an event unless there is an error.
func then(kind commit.EventKind, err error) (commit.Event, error) {
	if err != nil {
		kind = commit.Failure
	}
	return commit.Event{Kind: kind}, err
}

// end carries out what ends the attempt's part in a claim.
func (r *run) end(ctx context.Context, action commit.Action) {
	claim, state := r.claims[action.Claim], r.state.Claims[action.Claim]
	switch action.Kind {
	case commit.EndInFlight:
		if state.Phase == commit.Confirmed {
			r.landed(r.pod, claim)
		} else {
			r.endInFlight(r.pod, claim)
		}
	case commit.ReleaseClaim:
		r.newRelease(claim, state).start(ctx, action.Background)
	case commit.LeaveGroup:
		r.leaveGroup(ctx, claim, state)
	case commit.StayInGroup:
		r.Groups.Bound(claim.Object.UID, r.pod.UID, state, claim.allocation())
	}
}

// awaitDevices waits for binding conditions. That may take minutes, and usually nothing can
// have happened meanwhile to a claim that is reserved for the pod. But there was much time for
// non-participating schedulers.
func (r *run) awaitDevices(ctx context.Context) (commit.Event, error) {
	claims := make([]*resourceapi.ResourceClaim, len(r.claims))
	for i, claim := range r.claims {
		claims[i] = claim.Object
	}
	r.place.Leave()
	outcome, err := r.AwaitDevices(ctx, r.pod, r.node, claims)
	for i, claim := range outcome.Claims {
		r.claims[i].Object = claim
	}
	switch {
	case err != nil && r.Stopping.Err() != nil:
		// The next process finds the claims reserved and goes on waiting. To give them
		// back would throw away what drivers have done so far.
		return commit.Event{Kind: commit.ProcessEnds}, err
	case err != nil:
		return commit.Event{Kind: commit.Failure, Broken: outcome.Broken}, err
	case !outcome.Waited:
		return commit.Event{Kind: commit.GotReady}, nil
	}
	r.lost = r.losing(r.Contest.Settles())
	return r.lastLook(commit.GotReady)
}

// mayBind is what comes last before the pod is bound.
func (r *run) mayBind(ctx context.Context) error {
	if err := r.lastWrite(ctx); err != nil {
		return err
	}
	// The binding is next, and unlike what is written to claims, the server cannot refuse it for
	// being late.
	if err := r.State.Lease.Leads(); err != nil {
		return fmt.Errorf("the pod must not be bound by this process: %w", err)
	}
	return nil
}

// ErrConflict is why a pod is not bound although its claims are allocated and reserved.
var ErrConflict = errors.New("already allocated to another claim")

// tellConflict counts the claims that yield, and returns why the pod has to look for other
// devices.
func (r *run) tellConflict(ctx context.Context) error {
	for _, claim := range r.lost {
		countRollback(claim.to)
		klog.FromContext(ctx).Info("Rolling back a claim because a conflicting claim was allocated first",
			"pod", klog.KObj(r.pod), "conflict", claim.to.String())
	}
	return fmt.Errorf("%w: %s; looking for other devices", ErrConflict, r.lost[0].to)
}

// yield releases a claim that has lost. If that does not succeed, Abort goes on until it does.
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

// leaveGroup ends the use of a claim that is reserved for the pod's group. As long as others
// use it, it stays as it is for them, and whoever leaves last releases what any of them has
// written.
func (r *run) leaveGroup(ctx context.Context, claim *Claim, state commit.Claim) {
	state, allocation := r.Groups.Leave(claim.Object.UID, r.pod.UID, state, claim.allocation())
	release := r.newRelease(claim, state)
	if release.written == nil {
		release.written = allocation
	}
	release.start(ctx, false)
}
