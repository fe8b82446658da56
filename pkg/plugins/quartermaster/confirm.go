package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/commitorder"
)

// seeTimeout is how long to wait for a write of ours in the watch. It usually comes
// within milliseconds; without a connection to the server the pod had better start over.
const seeTimeout = 30 * time.Second

// judgeTimeout is how long to wait for drivers to publish what is needed to judge a claim, and
// judgeInterval how often to look. A pool is usually complete again within a second.
const (
	judgeTimeout  = 10 * time.Second
	judgeInterval = 50 * time.Millisecond
)

// errConflict is why a pod is not bound although its claims are allocated and reserved.
var errConflict = errors.New("somebody else was faster")

// confirm makes sure that nobody else holds what the pod's claims were allocated, see
// docs/commit-protocol.md. It is the last thing to happen before the pod is bound, and
// concerns claims that were allocated before this attempt as well: whoever did that may
// not have come this far. A claim that has to give way is given back.
func (pl *Quartermaster) confirm(ctx context.Context, c *cycle, pod *v1.Pod) *fwk.Status {
	if err := pl.see(ctx, c); err != nil {
		return failed(err)
	}
	if err := pl.judge(ctx, c); err != nil {
		return failed(err)
	}
	lost := pl.lost(c, pl.settles())
	if pl.settles() && !slices.ContainsFunc(lost, lostClaim.toOurs) {
		// When the first of two claims lets go of a device, the default scheduler forgets
		// that it is in use. So what is lost already is given back only now, when that
		// scheduler has done what it had to do, and what was lost stays lost even if the
		// other claim is gone: that scheduler would allocate the device again.
		var err error
		if lost, err = pl.settle(ctx, c, lost); err != nil {
			return failed(err)
		}
	}
	if len(lost) > 0 {
		return pl.giveWay(ctx, pod, lost)
	}
	return pl.stillAllocated(c)
}

// see waits until our watch has delivered the last writes of all claims: then it has
// delivered all allocations that were written before them.
func (pl *Quartermaster) see(ctx context.Context, c *cycle) error {
	defer metrics.observe(stageSee, time.Now())
	ctx, cancel := context.WithTimeout(ctx, seeTimeout)
	defer cancel()
	for _, podClaim := range c.claims {
		if err := pl.state.order.Await(ctx, podClaim.claim.ResourceVersion); err != nil {
			return fmt.Errorf("claim %s was allocated and reserved for the pod, but within %s the watch of claims did not show that, "+
				"so nobody knows whether its devices were allocated twice; trying again (check the connection to the API server): %w",
				klog.KObj(podClaim.claim), seeTimeout, err)
		}
	}
	return nil
}

// judge waits until it can be said of all claims whether they have to give way. What cannot
// be judged does not pass: after judgeTimeout the attempt fails, and the pod is tried again.
func (pl *Quartermaster) judge(ctx context.Context, c *cycle) error {
	undecided := pl.undecided(c)
	if undecided == nil {
		return nil
	}
	defer metrics.observe(stageJudge, time.Now())
	klog.FromContext(ctx).V(2).Info("Waiting to find out whether a claim has to give way", "reason", undecided)
	ctx, cancel := context.WithTimeout(ctx, judgeTimeout)
	defer cancel()
	ticker := time.NewTicker(judgeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; waited for that for at most %s, trying again: %w", undecided, judgeTimeout, context.Cause(ctx))
		}
		if undecided = pl.undecided(c); undecided == nil {
			return nil
		}
	}
}

// undecided returns why one of the claims cannot be judged.
func (pl *Quartermaster) undecided(c *cycle) error {
	for _, podClaim := range c.claims {
		if err := pl.state.order.Undecided(podClaim.claim.UID); err != nil {
			return err
		}
	}
	return nil
}

// stillAllocated fails if somebody has removed an allocation since it was written.
func (pl *Quartermaster) stillAllocated(c *cycle) *fwk.Status {
	for _, podClaim := range c.claims {
		if !pl.state.order.Allocated(podClaim.claim.UID) {
			return failed(fmt.Errorf("claim %s was allocated and reserved for the pod, but somebody has removed the allocation since; trying again",
				klog.KObj(podClaim.claim)))
		}
	}
	return nil
}

// lostClaim is a claim that has to give way.
type lostClaim struct {
	*podClaim
	to commitorder.Conflict
}

func (l lostClaim) toOurs() bool { return !l.to.Other.Foreign }

// lost returns the claims that have to give way. Schedulers that do not look give way
// to nobody, so with toForeign that is up to us even if we were first; unless a pod that
// is bound uses the claim, because then nothing would come free.
func (pl *Quartermaster) lost(c *cycle, toForeign bool) []lostClaim {
	var lost []lostClaim
	for _, podClaim := range c.claims {
		for _, conflict := range pl.state.order.Rivals(podClaim.claim.UID) {
			if conflict.Lost || toForeign && conflict.Other.Foreign && !pl.inUse(podClaim.claim) {
				lost = append(lost, lostClaim{podClaim, conflict})
				break
			}
		}
	}
	return lost
}

// inUse reports whether a pod that is known to be bound has reserved the claim.
func (pl *Quartermaster) inUse(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(pl.consumers(claim), func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" })
}

// addLost adds claims that are not in the list.
func addLost(list, more []lostClaim) []lostClaim {
	for _, l := range more {
		if !slices.ContainsFunc(list, func(known lostClaim) bool { return known.podClaim == l.podClaim }) {
			list = append(list, l)
		}
	}
	return list
}

// giveWay gives the claims back. If that does not succeed, Unreserve goes on until it
// does. The other claims of the pod are Unreserve's as well.
func (pl *Quartermaster) giveWay(ctx context.Context, pod *v1.Pod, lost []lostClaim) *fwk.Status {
	for _, claim := range lost {
		metrics.rollback(claim.to)
		klog.FromContext(ctx).Info("Giving back a claim because somebody else holds what it was allocated",
			"pod", klog.KObj(pod), "conflict", claim.to.String())
		if claim.group != nil {
			pl.groups.touch(claim.claim.UID, claim.claim.Status.Allocation)
			continue // The last one of the group's pods to leave gives it back.
		}
		claim.allocation = claim.claim.Status.Allocation
		if err := pl.undo(ctx, pod, claim.podClaim); err != nil {
			return failed(fmt.Errorf("%w: %s; giving it back: %w", errConflict, claim.to, err))
		}
		claim.touched = false
	}
	return failed(fmt.Errorf("%w: %s; looking for other devices", errConflict, lost[0].to))
}
