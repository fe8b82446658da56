package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
)

// runner carries the commit protocol out for one attempt to bind a pod. What internal/commit
// says is to be done, it does, and tells the result. What comes next is decided there alone.
type runner struct {
	pl    *Quartermaster
	cycle *cycle
	pod   *v1.Pod
	node  string
	// lost are the claims that have to yield, and to which others.
	lost []lostClaim
	// err is why the attempt has failed.
	err error
}

// run goes on with the attempt until there is nothing left to be done, and returns why it
// has failed, if it has.
func (r *runner) run(ctx context.Context, event commit.Event) error {
	for event.Kind != commit.NoEvent {
		var actions []commit.Action
		event.Cancelled = ctx.Err() != nil
		r.cycle.attempt, actions = commit.Step(r.cycle.attempt, event)
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
func (r *runner) do(ctx context.Context, action commit.Action) (commit.Event, error) {
	switch action.Kind {
	case commit.AwaitOthers:
		return then(commit.Settled, r.pl.settlePlan(ctx, r.cycle))
	case commit.WriteClaim:
		return then(commit.Written, r.pl.write(ctx, r.pod, r.cycle.claims[action.Claim]))
	case commit.AwaitWatch:
		return then(commit.Seen, r.pl.see(ctx, r.cycle))
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
func (r *runner) end(ctx context.Context, action commit.Action) {
	podClaim, state := r.cycle.claims[action.Claim], r.cycle.attempt.Claims[action.Claim]
	switch action.Kind {
	case commit.EndInFlight:
		if state.Phase == commit.Confirmed {
			r.pl.landed(r.pod, podClaim)
		} else {
			r.pl.endInFlight(r.pod, podClaim)
		}
	case commit.ReleaseClaim:
		r.pl.newRelease(r.pod, podClaim, state).start(ctx, action.Background)
	case commit.LeaveGroup:
		r.leaveGroup(ctx, podClaim, state)
	case commit.StayInGroup:
		r.pl.groups.Bound(podClaim.claim.UID, r.pod.UID, state, podClaim.allocation())
	}
}

// check finds out which claims have to yield. It concerns claims that were allocated before
// this attempt as well: whoever did that may not have come this far.
func (r *runner) check(ctx context.Context) (commit.Event, error) {
	if err := r.pl.judge(ctx, r.cycle); err != nil {
		return then(commit.Failure, err)
	}
	r.lost = r.pl.lost(r.cycle, r.pl.contest.Settles())
	event := r.verdict(commit.Checked)
	event.ToOurs = slices.ContainsFunc(r.lost, lostClaim.toOurs)
	return event, nil
}

// settle waits for late writes of others. What has lost until then stays lost.
func (r *runner) settle(ctx context.Context) (commit.Event, error) {
	if r.pl.contest.Settles() {
		var err error
		if r.lost, err = r.pl.settle(ctx, r.cycle, r.lost); err != nil {
			return then(commit.Failure, err)
		}
	}
	return r.lastLook(commit.Settled)
}

// lastLook ends a wait with a verdict. If no claim has to yield, all have to be allocated
// still.
func (r *runner) lastLook(kind commit.EventKind) (commit.Event, error) {
	if len(r.lost) == 0 {
		return then(kind, r.pl.stillAllocated(r.cycle))
	}
	return r.verdict(kind), nil
}

// verdict is an event that says which claims have lost.
func (r *runner) verdict(kind commit.EventKind) commit.Event {
	event := commit.Event{Kind: kind}
	for _, claim := range r.lost {
		event.Lost = append(event.Lost, slices.Index(r.cycle.claims, claim.podClaim))
	}
	return event
}

// awaitDevices waits for binding conditions. That may take minutes, and usually nothing can
// have happened meanwhile to a claim that is reserved for the pod. But there was much time for
// non-participating schedulers.
func (r *runner) awaitDevices(ctx context.Context) (commit.Event, error) {
	outcome, err := r.pl.awaitBindingConditions(ctx, r.cycle, r.pod, r.node)
	switch {
	case err != nil && r.pl.stopping.Err() != nil:
		// The next process finds the claims reserved and goes on waiting. To give them
		// back would throw away what drivers have done so far.
		return commit.Event{Kind: commit.ProcessEnds}, err
	case err != nil:
		return commit.Event{Kind: commit.Failure, Broken: outcome.Broken}, err
	case !outcome.Waited:
		return commit.Event{Kind: commit.GotReady}, nil
	}
	r.lost = r.pl.lost(r.cycle, r.pl.contest.Settles())
	return r.lastLook(commit.GotReady)
}

// mayBind is what comes last before the pod is bound.
func (r *runner) mayBind(ctx context.Context) error {
	if err := r.pl.recordExtended(ctx, r.cycle, r.pod); err != nil {
		return err
	}
	// The binding is next, and unlike what is written to claims, the server cannot refuse it for
	// being late.
	if err := r.pl.state.Lease.Leads(); err != nil {
		return fmt.Errorf("the pod must not be bound by this process: %w", err)
	}
	return nil
}

// errConflict is why a pod is not bound although its claims are allocated and reserved.
var errConflict = errors.New("already allocated to another claim")

// tellConflict counts the claims that yield, and returns why the pod has to look for other
// devices.
func (r *runner) tellConflict(ctx context.Context) error {
	for _, claim := range r.lost {
		metrics.rollback(claim.to)
		klog.FromContext(ctx).Info("Giving back a claim because somebody else holds what it was allocated",
			"pod", klog.KObj(r.pod), "conflict", claim.to.String())
	}
	return fmt.Errorf("%w: %s; looking for other devices", errConflict, r.lost[0].to)
}

// yield releases a claim that has lost. If that does not succeed, Unreserve goes on until it
// does.
func (r *runner) yield(ctx context.Context, claim int) error {
	podClaim := r.cycle.claims[claim]
	err := r.pl.newRelease(r.pod, podClaim, r.cycle.attempt.Claims[claim]).try(ctx)
	if err == nil {
		return nil
	}
	to := r.lost[slices.IndexFunc(r.lost, func(l lostClaim) bool { return l.podClaim == podClaim })].to
	return fmt.Errorf("%w: %s; releasing it: %w", errConflict, to, err)
}

// leaveGroup ends the use of a claim that is reserved for the pod's group. As long as others
// use it, it stays as it is for them, and whoever leaves last releases what any of them has
// written.
func (r *runner) leaveGroup(ctx context.Context, podClaim *podClaim, state commit.Claim) {
	state, allocation := r.pl.groups.Leave(podClaim.claim.UID, r.pod.UID, state, podClaim.allocation())
	release := r.pl.newRelease(r.pod, podClaim, state)
	if release.written == nil {
		release.written = allocation
	}
	release.start(ctx, false)
}

// landed ends what is in flight for a claim because the server has it.
func (pl *Quartermaster) landed(pod *v1.Pod, podClaim *podClaim) {
	pl.state.Freed(pl.state.Ledger.RemoveInFlight(podClaim.claim.UID, pod.UID))
	podClaim.planned = nil
	pl.signalWritten(podClaim)
}

// endInFlight takes the plan out of the ledger, and wakes the pods which waited for that: no
// API event tells them.
func (pl *Quartermaster) endInFlight(pod *v1.Pod, podClaim *podClaim) {
	freed := pl.state.Ledger.RemoveInFlight(podClaim.claim.UID, pod.UID)
	podClaim.planned = nil
	pl.signalGivenUp(podClaim)
	pl.state.GivenUp(pod, podClaim.claim, freed)
}
