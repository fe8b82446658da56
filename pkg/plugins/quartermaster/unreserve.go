package quartermaster

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Unreserve undoes Reserve and PreBind, in reverse order. An allocation that this
// attempt has written goes as well, unless others use it meanwhile: should nobody come
// back for it, then it would keep devices, or be in conflict with a claim in use. A pod
// that is bound all the same keeps everything.
func (pl *Quartermaster) Unreserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, _ string) {
	c, err := cycleOf(cs)
	if err != nil || c == nil || c.left {
		return
	}
	group, err := pl.groupCycleOf(cs)
	if err != nil {
		return
	}
	for i := len(c.claims) - 1; i >= 0; i-- {
		podClaim := c.claims[i]
		switch {
		case podClaim.group != nil:
			pl.leaveGroupClaim(ctx, pod, podClaim)
		case podClaim.touched && c.cancelled:
			pl.undoLater(ctx, pod, podClaim.handOver(), true)
		case podClaim.touched:
			pl.undoWrite(ctx, pod, podClaim.handOver())
		case podClaim.planned != nil:
			pl.endInFlight(pod, podClaim)
		}
	}
	pl.unreserveClassic(ctx, c, pod)
	if group != nil {
		group.forget(pl, c)
	}
	c.leaveVariant()
}

// handOver moves the duty to undo what was written to a copy, so that it is done
// once, and by whoever has the copy.
func (c *podClaim) handOver() *podClaim {
	pending := *c
	c.touched, c.planned, c.allocation, c.signalled = false, nil, nil, ""
	return &pending
}

// undoWrite takes back the reservation, unless the pod is bound. Only then it is known
// what became of the write, and the in-flight entry may end: if we forgot the devices
// while a write of unknown outcome has given them to the claim, they would be given out
// twice.
// So if the server cannot be reached, this goes on in the background. Until it is
// done the pod must not be tried again: the late undo would take away the
// reservation of the new attempt.
func (pl *Quartermaster) undoWrite(ctx context.Context, pod *v1.Pod, podClaim *podClaim) {
	if !pl.tryUndoWrite(ctx, pod, podClaim) {
		pl.undoLater(ctx, pod, podClaim, false)
	}
}

// undoLater is undoWrite in the background, which begins at once or after a pause. Besides
// for a server that cannot be reached, this is for pods that are preempted: until Unreserve
// returns, they still count on their node. Whoever preempts them is tried again meanwhile,
// preempts them once more, now by deletion, and may wait for an event that does not come.
func (pl *Quartermaster) undoLater(ctx context.Context, pod *v1.Pod, podClaim *podClaim, atOnce bool) {
	pl.undoing.begin(pod.UID)
	go func() {
		// Outlives the cycle, whose context ends now.
		ctx := context.WithoutCancel(ctx)
		_ = wait.PollUntilContextCancel(ctx, undoInterval, atOnce, func(ctx context.Context) (bool, error) {
			return pl.tryUndoWrite(ctx, pod, podClaim), nil
		})
		pl.undoing.end(pod.UID)
		// Others that waited have been woken when the ledger changed.
		pl.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}()
}

// undoInterval is the pause between attempts to take back a reservation when the
// server cannot be reached.
const undoInterval = 5 * time.Second

func (pl *Quartermaster) tryUndoWrite(ctx context.Context, pod *v1.Pod, podClaim *podClaim) bool {
	if err := pl.undo(ctx, pod, podClaim); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot take back the reservation of a claim; trying again",
			"claim", klog.KObj(podClaim.claim), "pod", klog.KObj(pod))
		return false
	}
	pl.endInFlight(pod, podClaim)
	if podClaim.group != nil {
		pl.groups.undone(podClaim.claim.UID)
	}
	return true
}

// undo tries to take back what was written into a claim. Of a pod that is bound, or may get
// bound by a process that was there before, it only finds out what was written.
func (pl *Quartermaster) undo(ctx context.Context, pod *v1.Pod, podClaim *podClaim) error {
	claim, consumer := podClaim.claim, podClaim.consumer(pod).UID
	keep, err := pl.isInUse(ctx, pod, podClaim)
	if err != nil {
		return err
	}
	if !keep && pl.takeover.leavesAlone(claim.UID, consumer, pod) {
		klog.FromContext(ctx).Info("Leaving a claim reserved for now: another process may have sent the pod's binding",
			"claim", klog.KObj(claim), "pod", klog.KObj(pod), "until", pl.takeover.left())
		keep = true
	}
	switch {
	case podClaim.special != nil && keep:
		claim, err = pl.settleSpecial(ctx, podClaim)
	case podClaim.special != nil:
		claim, err = pl.undoSpecial(ctx, pod, podClaim)
	case keep:
		claim, err = pl.writer.Settle(ctx, claim)
	case podClaim.allocation == nil:
		claim, err = pl.writer.Unreserve(ctx, claim, consumer)
	default:
		if claim.Status.Allocation == nil { // The write failed, and may have been carried out.
			claim = claim.DeepCopy()
			claim.Status.Allocation = podClaim.allocation
		}
		claim, err = pl.writer.GiveBack(ctx, claim, consumer)
	}
	switch {
	case err != nil:
	case claim != nil:
		pl.observe(ctx, claim)
	default:
		pl.state.freed(pl.state.ledger.Gone(podClaim.claim.UID))
	}
	return err
}

// endInFlight takes the plan out of the ledger, and wakes the pods which waited for that: no
// API event tells them.
func (pl *Quartermaster) endInFlight(pod *v1.Pod, podClaim *podClaim) {
	if podClaim.planned == nil {
		return
	}
	freed := pl.state.ledger.RemoveInFlight(podClaim.claim.UID, pod.UID)
	podClaim.planned = nil
	pl.signalGivenUp(podClaim)
	pl.state.givenUp(pod, podClaim.claim, freed)
}
