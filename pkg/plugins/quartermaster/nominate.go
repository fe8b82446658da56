package quartermaster

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// preempt looks for pods of lower priority that hold what the pod needs, and has them evicted. What they give up
// is kept for the pod until it is bound.
func (pl *Quartermaster) preempt(ctx context.Context, cs fwk.CycleState, c *cycle, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !pl.preemption.Enabled() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if c.awaitsRelease.Load() {
		pl.awaitRelease(c, pod)
		pl.waker.WakeAfterPause(c.pod) // Should one of these pods be one of which nothing was known yet.
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no pods are evicted: devices become free as soon as claims of pods that have ended are deallocated")
	}
	result, victims, status := pl.preemption.Preempt(context.WithValue(ctx, cycleInContext{}, c), cs, pod, statuses)
	switch {
	case status.IsSuccess() && len(victims) > 0:
		pl.nominate(ctx, c, pod, result.NominatedNodeName, victims)
	case result != nil: // No node will do, and the pod is nominated for none.
		pl.state.Freed(pl.state.nominations.Drop(pod.UID))
	}
	if status.Code() == fwk.Unschedulable {
		// What DefaultPreemption, whose turn would be next, can find is among what was looked at.
		return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Reasons()...)
	}
	return result, status
}

// cycleInContext is where the context of a preemption has the cycle.
type cycleInContext struct{}

// nominate keeps the devices that a pod is to get on a node, as soon as others are gone. It reports whether there
// are such devices.
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
	site := pl.valuedView(c, info.Node())
	site.Usage = pl.standing(c).Without(byUID(victims))
	return pl.keep(pl.searchContext(ctx, c), pod, task, claims, site, victims)
}

// keep makes a plan for a pod that is nominated for the site's node, and keeps its devices.
func (pl *Quartermaster) keep(ctx context.Context, pod *v1.Pod, task *allocator.Task, claims []*resourceapi.ResourceClaim, site allocator.Site, victims []*v1.Pod) bool {
	if task == nil {
		return false
	}
	plan := planOn(ctx, task, claims, site)
	if plan == nil {
		klog.FromContext(ctx).V(2).Info("Cannot plan which devices a nominated pod gets; none are kept for it", "pod", klog.KObj(pod), "node", klog.KObj(site.Node))
		return false
	}
	pl.setNomination(&preemption.Nomination{
		Pod: pod.UID, Group: preemption.GroupOf(pod), Priority: corev1helpers.PodPriority(pod), Node: site.Node.Name, Plan: plan, Victims: victims,
	})
	return true
}

// setNomination keeps what a pod is to get, and not any more what it was to get before.
func (pl *Quartermaster) setNomination(nomination *preemption.Nomination) {
	nomination.Awaited = pl.released(nomination.Victims)
	if pl.state.trying(nomination.Pod) != nil { // Others are looked after by their scheduler.
		pl.release.Await(nomination.Pod, nomination.Awaited...)
	}
	pl.state.Freed(pl.state.nominations.Set(nomination))
}

func byUID(pods []*v1.Pod) map[types.UID]*v1.Pod {
	result := make(map[types.UID]*v1.Pod, len(pods))
	for _, pod := range pods {
		result[pod.UID] = pod
	}
	return result
}

// NotYet implements preemption.Devices. After a restart, what the pod waits for is found out again.
func (d deviceHolders) NotYet(ctx context.Context, preemptor *v1.Pod) string {
	nomination := d.pl.state.nominations.Of(preemptor.UID)
	c, _ := ctx.Value(cycleInContext{}).(*cycle)
	if nomination == nil && preemptor.Status.NominatedNodeName != "" && c != nil {
		if node, err := d.pl.nodes.Get(preemptor.Status.NominatedNodeName); err == nil {
			leaving := preemption.Leaving(d.pl.standing(c).Elsewhere(d.pl.state.Inventory.OnNode(node), ""))
			if len(leaving) > 0 && d.pl.nominate(ctx, c, preemptor, node.Name, leaving) {
				nomination = d.pl.state.nominations.Of(preemptor.UID)
			}
		}
	}
	if nomination == nil {
		return ""
	}
	if leaving := d.pl.holders.Leaving(nomination); len(leaving) > 0 {
		return fmt.Sprintf("not eligible: waiting for %d evicted pods to end, whose devices it gets on node %s", len(leaving), nomination.Node)
	}
	return ""
}

// followNominated has nominations end with what they are for.
func (s *shared) followNominated(pods cache.SharedIndexInformer) error {
	changed := func(oldObj, newObj any) { s.Freed(s.nominations.Changed(informer.Versions[v1.Pod](oldObj, newObj))) }
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, obj) },
		UpdateFunc: changed,
		DeleteFunc: func(obj any) { changed(obj, nil) },
	})
	if err != nil {
		return fmt.Errorf("watch pods that are nominated for nodes: %w", err)
	}
	return nil
}

// planNominated finds out what pods get that are nominated for a node and have a higher priority than a pod that is
// about to be tried, or the same: those of other schedulers, and all after a restart.
func (pl *Quartermaster) planNominated(ctx context.Context, before *v1.Pod) {
	for _, pod := range pl.state.nominations.Unplanned(before.UID, corev1helpers.PodPriority(before), time.Now()) {
		node, err := pl.nodes.Get(pod.Status.NominatedNodeName)
		if err != nil {
			continue
		}
		all, err := pl.claims.Of(pod)
		if err != nil {
			continue
		}
		claims := podclaims.Unallocated(all)
		task := pl.solver.Prepare(claims)
		if len(claims) == 0 || task.Err() != nil {
			continue
		}
		site := allocator.Site{Node: node, Pools: pl.state.Inventory.OnNode(node)}
		usage, _ := pl.usageFor(pod)
		standing := preemption.NewStanding(pl.holders, usage, corev1helpers.PodPriority(pod))
		leaving := preemption.Leaving(standing.Elsewhere(site.Pools, ""))
		site.Usage = standing.Without(byUID(leaving))
		pl.keep(selector.WithBudget(ctx, selector.NewBudget(pl.attemptBudget, 0)), pod, task, claims, site, leaving)
	}
}

// usageFor returns what is in use in the eyes of a pod: of what is kept for others that are nominated, it may only
// take what is kept for those of lower priority. It also returns the pools in which it may not take something.
func (pl *Quartermaster) usageFor(pod *v1.Pod) (usage ledger.View, kept map[inventory.PoolID]bool) {
	against := pl.state.nominations.Against(pod, pl.holders.Priority(pod))
	if len(against) == 0 {
		return pl.state.Ledger, nil
	}
	kept = make(map[inventory.PoolID]bool)
	for i := range against {
		for result := range ledger.Used(against[i].Allocation) {
			kept[ledger.PoolOf(result)] = true
		}
	}
	return ledger.WhatIf(pl.state.Ledger, nil, against), kept
}

// keepsOn reports whether devices that a node reaches are kept for others. What is known of such a node without
// that does not count.
func (pl *Quartermaster) keepsOn(c *cycle, node *v1.Node) bool {
	return len(c.kept) > 0 && slices.ContainsFunc(pl.state.Inventory.OnNode(node), func(pool *inventory.NodePool) bool { return c.kept[pool.ID] })
}
