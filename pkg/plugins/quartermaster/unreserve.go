package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
)

// Unreserve undoes Reserve and PreBind, in reverse order. It also removes an allocation that this attempt has written,
// unless other consumers use it meanwhile: if the pod never came back, the claim would keep devices, or be in conflict
// with a claim in use. If the pod turns out to be bound, it keeps everything.
func (pl *Quartermaster) Unreserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	c, err := cycleOf(cs)
	if err == nil && c != nil && c.asksDrivers {
		pl.state.gangs.Postponed(cs)
		return // Nothing was reserved.
	}
	defer pl.state.gangs.Failed(cs) // After the pod's own devices in flight.
	if err == nil && c != nil && c.dryRun != nil {
		c.unreserveInDryRun()
		return
	}
	if err != nil || c == nil || c.attempt.IsLeft() {
		return
	}
	pl.waker.Fail(c.pod, node)
	c.attempt.Abort(ctx)
	c.legacy.Unreserve(ctx)
	pl.removeCharge(ctx, c, pod)
	c.leaveExtended()
	c.pod.Causes.Ended(reasons.Committing)
}
