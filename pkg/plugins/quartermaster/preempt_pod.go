package quartermaster

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// preempt chooses pods of lower priority that hold the devices that the pod needs, and evicts them. NominatedDevices keeps
// these devices for the pod until it is bound.
func (pl *Quartermaster) preempt(ctx context.Context, cs fwk.CycleState, c *cycle, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !pl.preemption.Enabled() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if awaits := c.awaitsRelease.Load() || pl.victimsEnded(ctx, c, pod, statuses); c.pod.AwaitsRelease(awaits, time.Now()) < mostForRelease && awaits {
		pl.awaitRelease(c, pod)
		pl.waker.WakeAfterPause(c.pod) // One of these pods may have been unknown until now.
		return nil, kube.New(fwk.UnschedulableAndUnresolvable, "no pods are evicted: devices become free as soon as claims of pods that have ended are deallocated")
	}
	if by := pl.nominated.PlannedFor(pod, c.open()); by != nil {
		pl.waker.WakeIn(c.pod, mostForRelease) // No event shows that a victim does not end in time.
		return nil, kube.New(fwk.UnschedulableAndUnresolvable, "no pods are evicted: a claim of this pod is to get devices on node "+by.Node+
			" and pods are being evicted for that already")
	}
	if rest := pl.preemptionDelay(1, pod); rest > 0 && pl.mayPreempt(pod) {
		pl.waker.WakeIn(c.pod, rest)
		return nil, kube.New(fwk.UnschedulableAndUnresolvable, pl.delayed())
	}
	result, victims, status := pl.preemption.Preempt(ctx, cs, pod, statuses)
	switch {
	case status.IsSuccess() && len(victims) > 0:
		if pl.nominate(ctx, c, pod, result.NominatedNodeName, victims) {
			if gets := pl.state.nominations.Of(pod.UID).Gets(); gets != "" {
				kube.Append(status, "it is to get "+gets)
			}
		}
	case result != nil: // No node fits, so the pod is not nominated.
		pl.state.Freed(pl.state.nominations.Drop(pod.UID))
	}
	if status.Code() == fwk.Unschedulable {
		// DefaultPreemption, which would run next, can find only candidates that were already considered.
		return result, kube.Recoded(fwk.UnschedulableAndUnresolvable, status)
	}
	return result, status
}

// victimsEnded reports whether the victims of a nominated pod have ended since Filter rejected its node in this attempt. That node has devices
// now, or has them as soon as claims are deallocated: no other pod has to go.
func (pl *Quartermaster) victimsEnded(ctx context.Context, c *cycle, pod *v1.Pod, statuses fwk.NodeToStatusReader) bool {
	nomination := pl.state.nominations.Of(pod.UID)
	if nomination == nil || len(nomination.Victims) == 0 || len(pl.holders.Leaving(nomination)) > 0 || statuses.Get(nomination.Node).Plugin() != Name {
		return false
	}
	info, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(nomination.Node)
	if err != nil {
		return false
	}
	task, _ := c.taskOn(info)
	if task == nil {
		return false
	}
	fits, certain := pl.wouldFit(ctx, c, task, pl.nodeView(c, info.Node()), pl.holders.WithoutEnded(c.usage, nomination.Awaited))
	return fits && certain
}

// mostForRelease limits how long a pod evicts no other pods while it waits for claims to be deallocated: the
// deallocation may be held up.
const mostForRelease = 30 * time.Second

// nominate keeps devices for a pod on a node until the victims are gone and the pod takes them. It reports whether the
// node has such devices.
func (pl *Quartermaster) nominate(ctx context.Context, c *cycle, pod *v1.Pod, nodeName string, victims []*v1.Pod) bool {
	info, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return false
	}
	task, claims := c.task, c.open()
	if c.extended != nil {
		variant, err := c.extended.VariantOn(nodeName, info.GetAllocatable().GetScalarResources())
		if err != nil {
			return false
		}
		task, claims = variant.Task, variant.Claims
	}
	if task == nil { // The pod may count on devices that it has together with the victims.
		return pl.nominated.Keep(ctx, pod, nodeName, []ledger.Use{}, nil, victims)
	}
	site := pl.affordableView(c, info.Node())
	site.Usage = pl.reclaimable(c).Without(preemption.ByUID(victims))
	return pl.nominated.Keep(ctx, pod, nodeName, preemption.Plan(pl.searchContext(ctx, c), task, claims, site), nil, victims)
}

// unlessUsable ends the nomination of a pod that any PreFilter plugin rejected, if no eviction makes its node usable:
// upstream clears it as well. A pod of a gang keeps the nomination while its gang has a plan or waits for victims.
func (pl *Quartermaster) unlessUsable(pod *v1.Pod, statuses fwk.NodeToStatusReader) *fwk.PostFilterResult {
	nomination := pl.state.nominations.Of(pod.UID)
	if nomination == nil || statuses.Get(nomination.Node).Code() != fwk.UnschedulableAndUnresolvable {
		return nil
	}
	if gang := crd.KeyOf(pod); gang != "" && (pl.state.gangs.Assignment(pod.UID) != nil || pl.state.gangs.Awaited(gang) > 0) {
		return nil
	}
	return pl.endNomination(pod)
}

// NotYet implements preemption.Devices. After a restart it determines again what the pod waits for.
func (d deviceHolders) NotYet(ctx context.Context, cs fwk.CycleState, preemptor *v1.Pod) string {
	nomination := d.pl.state.nominations.Of(preemptor.UID)
	c, err := cycleOf(cs)
	if (nomination == nil || !nomination.Until.IsZero()) && preemptor.Status.NominatedNodeName != "" && err == nil && c != nil {
		if node, err := d.pl.nodes.Get(preemptor.Status.NominatedNodeName); err == nil {
			leaving := preemption.Leaving(d.holders(ctx, c, node, ""))
			if len(leaving) > 0 && d.pl.nominate(ctx, c, preemptor, node.Name, leaving) {
				nomination = d.pl.state.nominations.Of(preemptor.UID)
			}
		}
	}
	if nomination == nil {
		return ""
	}
	if leaving := d.pl.holders.Leaving(nomination); len(leaving) > 0 {
		return fmt.Sprintf("not eligible: waiting for %d evicted pods to end; it gets their devices on node %s", len(leaving), nomination.Node)
	}
	return ""
}

// Retry implements preemption.Devices.
func (d deviceHolders) Retry(cs fwk.CycleState) {
	if c, err := cycleOf(cs); err == nil && c != nil {
		d.pl.waker.Retry(c.pod)
	}
}
