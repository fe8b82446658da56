package quartermaster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
	"github.com/quartermaster-dra/quartermaster/internal/podstatus"
)

// PostFilter runs when no node fits. If that is because a claim is allocated where the
// pod cannot run, or its devices do not get ready, and nobody else uses it, then it is
// deallocated: the next attempt can allocate it elsewhere. One claim is enough for
// an attempt. Its update is the event that wakes the pod.
//
// After that, as after finding a node that would do, it says Success: the pod can be made
// schedulable, and the plugins after this one, such as preemption, do not get their turn.
// Otherwise pods would be evicted for one that has a way of its own by then.
func (pl *Quartermaster) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	defer pl.state.turns.Rejected(pod)
	if result, status := pl.postFilterGang(ctx, cs, pod); status != nil {
		return result, status
	}
	c, err := cycleOf(cs)
	if err != nil {
		return nil, failed(err)
	}
	if c == nil { // PreFilter has turned the pod away.
		return pl.unlessUsable(pod, statuses), fwk.NewStatus(fwk.Unschedulable)
	}
	if task := c.usualTask(); task != nil && c.pod.Learn() {
		pl.learner.Rejected(pl.searchContext(ctx, c), pod, c.takes, task, c.narrowedTo)
	}
	switch {
	case c.narrowedToBest:
		// That others will not do either is for an attempt on all nodes to find out. Whoever rejects them
		// has to be among the plugins that rejected the pod, or no event of theirs would wake it.
		pl.lookEverywhere(ctx, c, pod)
		return nil, podstatus.New(fwk.Success, "the nodes where the devices are needed the least will not do but others may; looking again")
	case c.narrowedTo != nil && pl.narrowing.JudgeOthers(ctx, cs, pod, c.narrowedTo, statuses):
		pl.lookEverywhere(ctx, c, pod)
		return nil, podstatus.New(fwk.Success, "devices became free meanwhile; looking again")
	}
	for _, podClaim := range c.claims {
		if podClaim.Origin != commitrunner.Given || !c.inTheWay(podClaim) || !onlyFor(podClaim, pod.UID) {
			continue
		}
		if pl.takeover.FoundReserved(podClaim.Object, pod.UID, pod) {
			return unlessBroken(podClaim), podstatus.New(fwk.Success, pl.takeover.Message("claim "+klog.KObj(podClaim.Object).String()))
		}
		freed, err := pl.free(ctx, podClaim, pod, pod.UID)
		if err != nil {
			return nil, failed(err)
		}
		if !freed {
			return nil, podstatus.New(fwk.Success, "the pod has been bound by an earlier attempt")
		}
		if podClaim.Broken != nil {
			return unlessBroken(podClaim), podstatus.Newf(fwk.Success, "%v; the claim was deallocated to look for devices again", podClaim.Broken)
		}
		return nil, podstatus.Newf(fwk.Success, "claim %s was deallocated to find devices elsewhere", claimname.Of(podClaim.Object))
	}
	if status := c.legacy.Free(); status != nil {
		return nil, status
	}
	removed, err := pl.removeLeftOver(ctx, c, pod)
	if err != nil {
		return nil, failed(err)
	}
	if removed {
		return nil, podstatus.New(fwk.Success, "the claim that an earlier attempt made for extended resources was deleted")
	}
	if pl.takeover.Keeps(pod) {
		return nil, podstatus.New(fwk.Success, pl.takeover.Message("a claim"))
	}
	return pl.preempt(ctx, cs, c, pod, statuses)
}

// unlessBroken ends the nomination of a pod for whose claim a scheduler has waited in vain: kube-scheduler would try no other node
// as long as that one will do.
func unlessBroken(podClaim *podClaim) *fwk.PostFilterResult {
	if podClaim.Broken == nil {
		return nil
	}
	return framework.NewPostFilterResultWithNominatedNode("")
}

// lookEverywhere has the pod tried again at once, on all nodes.
func (pl *Quartermaster) lookEverywhere(ctx context.Context, c *cycle, pod *v1.Pod) {
	c.pod.LookEverywhere()
	pl.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// free deallocates a claim that nobody but the consumer may use, for the sake of a pod. It returns false, and leaves the
// claim alone, if the claim is reserved for the consumer and the server says that this one is on a node: the answer to a
// binding was lost, and the informer does not know the binding yet.
func (pl *Quartermaster) free(ctx context.Context, podClaim *podClaim, pod *v1.Pod, consumer types.UID) (bool, error) {
	if len(podClaim.Object.Status.ReservedFor) > 0 {
		if bound, err := pl.isNeeded(ctx, pod, &podClaim.Claim); err != nil || bound {
			return false, err
		}
	}
	claim, why := podClaim.Object, "because pod "+pod.Name+" fits no node where that can be used and nobody else uses it"
	if podClaim.Broken != nil {
		why = "because pod " + pod.Name + " cannot use that: " + podClaim.Broken.Error()
	}
	ctx = claimwriter.Because(ctx, claimwriter.Cause{Pod: pod, Why: why})
	freed, err := pl.writer.Deallocate(ctx, claim, consumer)
	if err != nil {
		return false, fmt.Errorf("free the devices of claim %s (they fit no node): %w", klog.KObj(claim), err)
	}
	if freed != nil { // Else it is gone, and so is its allocation.
		pl.state.Freed(pl.state.Ledger.Observe(freed))
	}
	return true, nil
}

// inTheWay reports whether the claim is what keeps the pod from nodes. As long as it is not
// known of a node on which it can be used whether there are devices for the others, it is not.
func (c *cycle) inTheWay(podClaim *podClaim) bool {
	return c.unavailable[podClaim] && (podClaim.Broken != nil || !c.undecided.Load())
}

// onlyFor reports whether nobody but the consumer, a pod or a group, uses the claim.
func onlyFor(podClaim *podClaim, only types.UID) bool {
	for _, consumer := range podClaim.Object.Status.ReservedFor {
		if consumer.UID != only {
			return false
		}
	}
	return true
}
