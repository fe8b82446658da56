package commit

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/allocationlog"
	"github.com/quartermaster-dra/quartermaster/internal/commit/protocol"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// seeTimeout limits the wait for the watch to deliver a write of this process. It usually comes within
// milliseconds; without a connection to the server, the pod should start over.
const seeTimeout = 30 * time.Second

// JudgeTimeout limits the wait for drivers to publish the slices that are needed to judge a claim, and
// judgeInterval is the interval between two looks. A pool is usually complete again within a second.
const (
	JudgeTimeout  = 10 * time.Second
	judgeInterval = 50 * time.Millisecond
)

// start returns the event that starts the protocol. It names the claims that were allocated before this attempt and are known
// to have lost; nobody reserves these again. They yield at once to a claim of this scheduler, or while a bound pod uses the
// loser, so that nothing comes free. The check decides about claims that the watch has not delivered, or that cannot be judged yet.
func (r *run) start(ctx context.Context) protocol.Event {
	ctx, cancel := context.WithTimeout(ctx, seeTimeout)
	defer cancel()
	known := slices.DeleteFunc(slices.Clone(r.claims), func(claim *Claim) bool {
		return claim.Plan() != nil || !claim.IsAllocated() || r.State.Order.Await(ctx, claim.Object.ResourceVersion) != nil ||
			r.State.Order.Undecided(claim.Object.UID) != nil
	})
	if len(known) == 0 {
		return protocol.Event{Kind: protocol.Started}
	}
	r.lost = slices.DeleteFunc(r.losing(r.Foreign.Settles()), func(lost lostClaim) bool { return !slices.Contains(known, lost.Claim) })
	event := r.verdict(protocol.Started)
	event.AtOnce = r.allLost(func(lost lostClaim) bool { return lost.toOurs() || r.Known.InUse(lost.Object) })
	return event
}

// allLost reports whether claims have lost and all of them are like that: one that must settle first makes all of them settle.
func (r *run) allLost(like func(lostClaim) bool) bool {
	return len(r.lost) > 0 && !slices.ContainsFunc(r.lost, func(lost lostClaim) bool { return !like(lost) })
}

// see waits until the watch has delivered the last writes of all claims, and thus all allocations that
// were written before them.
func (r *run) see(ctx context.Context) error {
	defer observe(stageWatchCatchup, time.Now())
	ctx, cancel := context.WithTimeout(ctx, seeTimeout)
	defer cancel()
	for _, claim := range r.claims {
		if err := r.State.Order.Await(ctx, claim.Object.ResourceVersion); err != nil {
			return fmt.Errorf("claim %s was allocated and reserved for the pod but within %s the watch of claims did not show that; "+
				"its devices may have been allocated twice; trying again (check the connection to the API server): %w",
				klog.KObj(claim.Object), seeTimeout, err)
		}
	}
	return nil
}

// check determines which claims must yield. It includes claims that were allocated before this attempt:
// the attempt that allocated them may not have got this far.
func (r *run) check(ctx context.Context) (protocol.Event, error) {
	if err := r.judge(ctx); err != nil {
		return then(protocol.Failure, err)
	}
	r.lost = r.losing(r.Foreign.Settles())
	event := r.verdict(protocol.Checked)
	event.AtOnce = r.allLost(lostClaim.toOurs)
	return event, nil
}

// judge waits until it is known for all claims whether they must yield. A claim that cannot be judged
// does not pass: after JudgeTimeout the attempt fails, and the pod is tried again.
func (r *run) judge(ctx context.Context) error {
	undecided := r.undecided()
	if undecided == nil {
		return nil
	}
	r.place.Leave()
	defer observe(stagePoolComplete, time.Now())
	klog.FromContext(ctx).V(2).Info("Waiting to find out whether a claim has to yield", "reason", undecided)
	ctx, cancel := context.WithTimeout(ctx, JudgeTimeout)
	defer cancel()
	ticker := time.NewTicker(judgeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; waited for that for at most %s; trying again: %w", undecided, JudgeTimeout, context.Cause(ctx))
		}
		if undecided = r.undecided(); undecided == nil {
			return nil
		}
	}
}

// undecided returns why one of the claims cannot be judged. One that a pod on a node uses was judged before that was bound, and a
// check that was passed stays passed; if another scheduler has bound it, nothing would come free.
func (r *run) undecided() error {
	for _, claim := range r.claims {
		if r.Known.InUse(claim.Object) {
			continue
		}
		if err := r.State.Order.Undecided(claim.Object.UID); err != nil {
			return err
		}
	}
	return nil
}

// lastLook ends a wait with a verdict. If no claim must yield, all claims must still be allocated.
func (r *run) lastLook(kind protocol.EventKind) (protocol.Event, error) {
	if len(r.lost) == 0 {
		return then(kind, r.stillAllocated())
	}
	return r.verdict(kind), nil
}

// stillAllocated returns an error if an allocation was removed after it was written.
func (r *run) stillAllocated() error {
	for _, claim := range r.claims {
		if !r.State.Order.Allocated(claim.Object.UID) {
			return fmt.Errorf("claim %s was allocated and reserved for the pod but the allocation was removed since then; trying again",
				klog.KObj(claim.Object))
		}
	}
	return nil
}

// verdict returns an event with the claims that have lost.
func (r *run) verdict(kind protocol.EventKind) protocol.Event {
	event := protocol.Event{Kind: kind}
	for _, lost := range r.lost {
		event.Lost = append(event.Lost, slices.Index(r.claims, lost.Claim))
	}
	return event
}

// lostClaim is a claim that must yield.
type lostClaim struct {
	*Claim
	to allocationlog.Conflict
}

func (l lostClaim) toOurs() bool { return !l.to.Other.Foreign }

// losing returns the claims that must yield. Non-participating schedulers never yield. With toForeign,
// a claim therefore yields to theirs even if it was first, unless a bound pod uses it, because then
// yielding would free nothing.
func (r *run) losing(toForeign bool) []lostClaim {
	var lost []lostClaim
	for _, claim := range r.claims {
		for _, conflict := range r.State.Order.Conflicts(claim.Object.UID) {
			if conflict.Lost && !r.isDrivers(claim.Object, conflict) || toForeign && conflict.Other.Foreign && !r.Known.InUse(claim.Object) {
				lost = append(lost, lostClaim{claim, conflict})
				break
			}
		}
	}
	return lost
}

// LostInUse returns the conflict that a claim has lost although pods on nodes use it, nil if there is none. Such a claim does not
// yield, since nothing would come free, and no further pod can use it while the conflict lasts, unless the driver made the conflict.
func (r *Runner) LostInUse(claim *resourceapi.ResourceClaim) *allocationlog.Conflict {
	if claim.Status.Allocation == nil || !r.Known.InUse(claim) {
		return nil
	}
	for _, conflict := range r.State.Order.Conflicts(claim.UID) {
		if conflict.Lost && !r.isDrivers(claim, conflict) {
			return &conflict
		}
	}
	return nil
}

// isDrivers reports whether a driver made a claim's conflict, by publishing less than was in use: both allocations are of schedulers that
// check them, and the claim has passed its check, since a pod on a node uses it. As upstream has it, further pods may use such a claim.
func (r *Runner) isDrivers(claim *resourceapi.ResourceClaim, conflict allocationlog.Conflict) bool {
	return conflict.Cause.HasAmount() && !conflict.Claim.Foreign && !conflict.Other.Foreign && slices.ContainsFunc(r.Known.Consumers(claim), func(pod *v1.Pod) bool {
		return pod.Spec.NodeName != "" && !dra.HasEnded(pod)
	})
}

// addLost adds claims that are not in the list.
func addLost(list, more []lostClaim) []lostClaim {
	for _, l := range more {
		if !slices.ContainsFunc(list, func(known lostClaim) bool { return known.Claim == l.Claim }) {
			list = append(list, l)
		}
	}
	return list
}
