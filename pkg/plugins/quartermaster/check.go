package quartermaster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/claimlog"
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

// see waits until our watch has delivered the last writes of all claims: then it has
// delivered all allocations that were written before them.
func (pl *Quartermaster) see(ctx context.Context, c *cycle) error {
	defer metrics.observe(stageWatchCatchup, time.Now())
	ctx, cancel := context.WithTimeout(ctx, seeTimeout)
	defer cancel()
	for _, podClaim := range c.claims {
		if err := pl.state.Order.Await(ctx, podClaim.claim.ResourceVersion); err != nil {
			return fmt.Errorf("claim %s was allocated and reserved for the pod, but within %s the watch of claims did not show that, "+
				"so nobody knows whether its devices were allocated twice; trying again (check the connection to the API server): %w",
				klog.KObj(podClaim.claim), seeTimeout, err)
		}
	}
	return nil
}

// judge waits until it can be said of all claims whether they have to yield. What cannot
// be judged does not pass: after judgeTimeout the attempt fails, and the pod is tried again.
func (pl *Quartermaster) judge(ctx context.Context, c *cycle) error {
	undecided := pl.undecided(c)
	if undecided == nil {
		return nil
	}
	defer metrics.observe(stagePoolComplete, time.Now())
	klog.FromContext(ctx).V(2).Info("Waiting to find out whether a claim has to yield", "reason", undecided)
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
		if err := pl.state.Order.Undecided(podClaim.claim.UID); err != nil {
			return err
		}
	}
	return nil
}

// stillAllocated fails if somebody has removed an allocation since it was written.
func (pl *Quartermaster) stillAllocated(c *cycle) error {
	for _, podClaim := range c.claims {
		if !pl.state.Order.Allocated(podClaim.claim.UID) {
			return fmt.Errorf("claim %s was allocated and reserved for the pod, but somebody has removed the allocation since; trying again",
				klog.KObj(podClaim.claim))
		}
	}
	return nil
}

// lostClaim is a claim that has to yield.
type lostClaim struct {
	*podClaim
	to claimlog.Conflict
}

func (l lostClaim) toOurs() bool { return !l.to.Other.Foreign }

// lost returns the claims that have to yield. Non-participating schedulers yield
// to nobody, so with toForeign that is up to us even if we were first; unless a pod that
// is bound uses the claim, because then nothing would come free.
func (pl *Quartermaster) lost(c *cycle, toForeign bool) []lostClaim {
	var lost []lostClaim
	for _, podClaim := range c.claims {
		for _, conflict := range pl.state.Order.Conflicts(podClaim.claim.UID) {
			if conflict.Lost || toForeign && conflict.Other.Foreign && !pl.claims.InUse(podClaim.claim) {
				lost = append(lost, lostClaim{podClaim, conflict})
				break
			}
		}
	}
	return lost
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
