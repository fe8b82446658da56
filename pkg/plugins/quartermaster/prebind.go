package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
)

// PreBindPreFlight tells the scheduler whether there is anything to write. If there is, the pod counts as writing from
// now on, unless it waits at Permit.
func (pl *Quartermaster) PreBindPreFlight(_ context.Context, cs fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	c, err := cycleOf(cs)
	if err != nil {
		return result, failed(err)
	}
	if (c == nil || len(c.claims) == 0 && c.legacy == nil) && coordinator.AssignmentIn(cs) == nil {
		return result, fwk.NewStatus(fwk.Skip)
	}
	if c != nil && pl.handle.GetWaitingPod(pod.UID) == nil {
		c.attempt.Enter()
	}
	return result, nil
}

// PreBind writes allocations and reservations, then makes sure that no other claim holds the same devices, and waits
// until the devices are ready. When it returns success, the server has confirmed for each claim that it is allocated as
// planned and reserved for the pod, even if the claim looked like that before: the informer's state may be old. If it
// fails, the scheduler calls Unreserve.
//
// A pod of a gang then waits until the gang's other pods have got as far.
func (pl *Quartermaster) PreBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if status := pl.preBind(ctx, cs, pod, node); !status.IsSuccess() {
		return status
	}
	if err := pl.state.gangs.Committed(ctx, cs); err != nil {
		return failed(err)
	}
	return nil
}

// preBind implements PreBind for one pod.
func (pl *Quartermaster) preBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c == nil {
		return nil
	}
	if err := c.legacy.Reserve(ctx); err != nil {
		return failed(err)
	}
	if len(c.claims) == 0 {
		return nil
	}
	if err := pl.recordCharge(ctx, c, pod, node); err != nil {
		c.pod.Causes.Note(reasons.CommitFailed)
		return failed(err)
	}
	if err := c.attempt.Commit(ctx, node, func(ctx context.Context) error { return pl.recordExtended(ctx, c, pod) }); err != nil {
		c.pod.Causes.Note(commit.CauseOf(err))
		return failed(err)
	}
	return nil
}

// PostBind ends the pod's use of claims that are reserved for its group, and its negotiation about claims that
// controllers allocate.
func (pl *Quartermaster) PostBind(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, _ string) {
	defer pl.state.gangs.Bound(cs)
	c, err := cycleOf(cs)
	if err != nil || c == nil {
		return
	}
	c.legacy.End()
	c.attempt.Bound(ctx)
}
