package quartermaster

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/nodeallocatable"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// checkRecorded refuses a pod while a device of an allocated claim is not published, as after a restart of its driver, if the status of the
// pod or of another one that uses the claim says that its devices take resources of a node: the pod would be bound, and nothing would count
// these.
func (pl *Quartermaster) checkRecorded(c *cycle, pod *v1.Pod) *fwk.Status {
	if pl.accountant == nil {
		return nil
	}
	for _, podClaim := range c.claims {
		decided := podClaim.Decided()
		if decided == nil {
			continue
		}
		result := pl.unpublishedIn(decided)
		if result == nil || !isRecorded(pod, podClaim.Object) && !pl.recordedByUsers(podClaim.Object) {
			continue
		}
		c.pod.Causes.Note(reasons.PoolUnusable)
		c.pod.HelpedByAnySlice()
		return unschedulable("claim %s has device %s/%s which its driver does not publish now; until it does, it is not known what the "+
			"pod takes of its node", klog.KObj(podClaim.Object), ledger.PoolOf(result), result.Device)
	}
	return nil
}

// isRecorded reports whether the status of a pod says that the devices of a claim which it uses take resources of a node.
func isRecorded(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(pod.Status.NodeAllocatableResourceClaimStatuses, func(status v1.NodeAllocatableResourceClaimStatus) bool {
		return status.ResourceClaimName == claim.Name
	})
}

// recordedByUsers reports whether isRecorded holds for a pod that a claim is reserved for.
func (pl *Quartermaster) recordedByUsers(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(pl.claims.Consumers(claim), func(user *v1.Pod) bool { return isRecorded(user, claim) })
}

// unpublishedIn returns a result whose device is not published now, nil if there is none.
func (pl *Quartermaster) unpublishedIn(allocation *resourceapi.AllocationResult) *resourceapi.DeviceRequestAllocationResult {
	for i := range allocation.Devices.Results {
		if result := &allocation.Devices.Results[i]; pl.published(result) == nil {
			return result
		}
	}
	return nil
}

// recordCharge writes into the pod's status what its devices take of the node, for the kubelet and all schedulers. It comes before
// the claims are written, so the status of a bound pod is never missing, whatever ends this process.
func (pl *Quartermaster) recordCharge(ctx context.Context, c *cycle, pod *v1.Pod, node string) error {
	if pl.accountant == nil {
		return nil
	}
	var status nodeallocatable.Status
	if charge := c.charges[node]; charge != nil {
		status = charge.status
	}
	if len(status) == 0 && len(c.pod.Latest().Status.NodeAllocatableResourceClaimStatuses) == 0 {
		return nil
	}
	c.recorded = true
	if err := pl.state.Lease.Leads(); err != nil {
		return err
	}
	return nodeallocatable.Record(ctx, pl.handle.ClientSet(), pl.writer, pod, status)
}

// clearTimeout limits the time for removing what recordCharge wrote.
const clearTimeout = 10 * time.Second

// removeCharge undoes recordCharge, unless the pod turns out to be bound. If that fails, the next attempt overwrites it.
func (pl *Quartermaster) removeCharge(ctx context.Context, c *cycle, pod *v1.Pod) {
	if !c.recorded {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	err := pl.state.Lease.Leads()
	if err == nil {
		err = nodeallocatable.Clear(ctx, pl.handle.ClientSet(), pl.writer, pod)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The pod's status may say for now that it takes resources of a node", "pod", klog.KObj(pod))
	}
}

// hasRecorded reports whether the pod still has a claim that its status speaks of. The record is right then, and must stay: the binding
// that a process sent before it ended may arrive late.
func (pl *Quartermaster) hasRecorded(c *cycle, pod *v1.Pod) bool {
	return slices.ContainsFunc(c.claims, func(claim *podClaim) bool {
		return isRecorded(pod, claim.Object) && claim.IsAllocated() && resourceclaim.IsReservedForPod(pod, claim.Object, pl.features.EnableDRAWorkloadResourceClaims)
	})
}

// removeLeftCharge removes what an earlier attempt recorded and another process, or a failed write, has left: kube-scheduler's plugins
// count it on every node, so the pod might fit nowhere. The status is nil if there is nothing to remove.
func (pl *Quartermaster) removeLeftCharge(ctx context.Context, c *cycle, pod *v1.Pod) *fwk.Status {
	if pl.accountant == nil || len(pod.Status.NodeAllocatableResourceClaimStatuses) == 0 || pl.hasRecorded(c, pod) {
		return nil
	}
	if err := nodeallocatable.Clear(ctx, pl.handle.ClientSet(), pl.writer, pod); err != nil {
		return failed(err)
	}
	pl.waker.WakeAfterPause(c.pod)
	return kube.New(fwk.Success, "what an earlier attempt recorded about resources of a node was removed from the pod's status; looking again")
}
