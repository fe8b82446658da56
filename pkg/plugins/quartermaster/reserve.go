package quartermaster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Reserve puts the plan for the chosen node into the ledger, so that no other pod
// gets these devices while PreBind writes them. Nothing is written yet. If it
// fails, the scheduler calls Unreserve.
func (pl *Quartermaster) Reserve(_ context.Context, cs fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c == nil || c.task == nil {
		return nil
	}
	claims, plan := c.unallocated(), c.plans[nodeName]
	if len(plan) != len(claims) {
		return failed(fmt.Errorf("pod %s: there are allocations for %d of its claims on node %s, but %d need one; "+
			"this is a bug in plugin %s", klog.KObj(pod), len(plan), nodeName, len(claims), Name))
	}
	for i, podClaim := range claims {
		allocation := plan[i].DeepCopy()
		if err := pl.state.ledger.AddInFlight(ledger.RefTo(podClaim.claim), allocation); err != nil {
			return failed(err)
		}
		podClaim.planned = allocation
	}
	return nil
}
