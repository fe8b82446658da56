package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	extendedresource "github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/gang/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// PreFilter looks up the pod's claims and prepares a task for those without an allocation. It rejects the pod if no
// node can fit, and returns the nodes that can if they are few.
//
// Pods of a gang get the node and devices in the gang's plan.
func (pl *Quartermaster) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if coordinator.IsApart(cs) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	pl.state.turns.Begin(pod, pl.takesTurns(pod))
	seat, err := pl.state.gangs.Begin(ctx, cs, pod, nodes, pl.planGang(nodes))
	pl.waiting.AwaitsGroup(pod, err != nil)
	if err != nil {
		return nil, unschedulableFor(err)
	}
	result, status := pl.preFilterPod(ctx, cs, pod, nodes)
	if seat != nil && (status.IsSuccess() || status.IsSkip()) {
		return &fwk.PreFilterResult{NodeNames: sets.New(seat.Node)}, nil
	}
	return result, status
}

// preFilterPod implements PreFilter after the pod's gang is planned.
func (pl *Quartermaster) preFilterPod(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	extended := pl.extendedResources(pod)
	if pl.isResize(pod) || len(pod.Spec.ResourceClaims) == 0 && !extendedresource.AnyBacked(extended) {
		noteUnbacked(cs, extended)
		return nil, fwk.NewStatus(fwk.Skip)
	}
	pl.state.Rooms.Follow(nodes)
	c := pl.newCycle(pod, len(nodes))
	if pl.groupRun != nil {
		c.pod, c.dryRun = queue.Apart(pod), pl.groupRun
		if err := pl.groupRun.Enter(cs, pod, c); err != nil {
			return nil, failed(err)
		}
	} else {
		c.pod = pl.waiting.Begin(pod)
	}
	result, status := pl.preFilter(ctx, cs, pod, c, extended, nodes)
	if status.IsRejected() && !status.IsSkip() || result != nil && !c.narrowedToBest {
		pl.waker.Reject(c.pod) // Nodes that are not returned count as rejected.
	}
	return result, status
}

// newCycle returns the state at the beginning of an attempt.
func (pl *Quartermaster) newCycle(pod *v1.Pod, nodes int) *cycle {
	return &cycle{
		takes:       noderesources.Of(pod),
		usage:       pl.state.Ledger,
		steps:       allocator.NewSteps(int(*pl.args.AttemptStepBudget), nodes),
		evaluation:  selector.NewBudget(pl.attemptBudget, 0).For(pod.Namespace),
		dryRunSteps: allocator.NewSteps(int(*pl.args.AttemptStepBudget), nodes),
	}
}

// preFilter implements PreFilter for pods that need devices, except for recording the rejection.
func (pl *Quartermaster) preFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, c *cycle, extended []extendedresource.Resource, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	group, err := pl.groupCycleOf(cs)
	if err != nil {
		return nil, failed(err)
	}
	if group != nil {
		c.group, c.uid = group, pod.UID
		group.SetMember(pod.UID, c)
		c.place = workload.Current(pl.handle.SnapshotSharedLister(), cs)
		if c.dryRun == nil && c.place == (workload.Place{}) { // In a domain, the question is whether the pods fit there.
			pl.planGroup(ctx, group, pod, nodes)
		}
	}
	claims, err := pl.claims.Of(pod)
	if err != nil {
		c.pod.Causes.Note(reasons.ClaimMissing)
		return nil, unschedulable("%v", err)
	}
	if len(claims) == 0 && !extendedresource.AnyBacked(extended) {
		noteUnbacked(cs, extended)
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := pl.state.Sync(ctx); err != nil {
		return nil, failed(err)
	}
	pl.learner.Seed(ctx)
	pl.planner.PlanNominated(selector.WithBudget(ctx, c.evaluation), pod)
	c.usage, c.kept = pl.planner.UsageFor(pod)
	if pl.commits.IsReleasing(pod.UID) {
		c.pod.Causes.Note(reasons.ClaimInUse)
		return nil, unschedulable("what an earlier attempt wrote into the pod's claims could not be undone yet; " +
			"waiting for the API server to accept that")
	}
	var status *fwk.Status
	if claims, c.legacy, status = pl.legacy.Split(pod, claims); status != nil {
		return nil, status
	}
	for _, claim := range claims {
		podClaim, status := pl.checkClaim(pod, claim, group)
		if status != nil {
			c.pod.Causes.Note(reasons.ClaimInUse)
			if pl.features.EnableDRANodeAllocatableResources {
				c.pod.HelpedByAnySlice() // See package nodeallocatable.
			}
			return nil, status
		}
		c.claims = append(c.claims, podClaim)
	}
	if err := pl.setGroups(pod, c.claims); err != nil {
		return nil, unschedulable("%v", err)
	}
	if status := pl.demandExtended(cs, c, pod, extended); status != nil {
		return nil, status
	}
	if status := pl.prepare(c); status != nil {
		return nil, status
	}
	pl.wantsShared(c)
	c.failed = pl.failed(c.claims, pod)
	cs.Write(cycleKey, c)
	if c.dryRun != nil {
		return nil, nil
	}
	if node := c.takeSeat(); node != "" {
		return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
	}
	if c.task != nil {
		c.known = pl.know(ctx, c, pod, c.task, c.open())
	} else if c.extended != nil && c.extended.Full().Task != nil {
		c.known = pl.know(ctx, c, pod, c.extended.Full().Task, c.extended.Full().Claims)
	}
	if c.place.SomeDevices() {
		c.known = nil // The answers assume that nodes have all their devices.
	}
	return pl.narrow(ctx, c, pod, len(nodes)), nil
}

// isResize reports whether the pod is in the queue only because it waits to be resized on its node. Its devices do not
// change (KEP-1287).
func (pl *Quartermaster) isResize(pod *v1.Pod) bool {
	return pl.features.EnableInPlacePodVerticalScalingSchedulerPreemption && resource.IsPodResizeDeferred(pod)
}

// checkClaim checks whether the pod can use a claim on any node.
func (pl *Quartermaster) checkClaim(pod *v1.Pod, claim *resourceapi.ResourceClaim, group *groupCycle) (*podClaim, *fwk.Status) {
	rules := eligibility.Rules{
		OfGroups:     pl.features.EnableDRAWorkloadResourceClaims,
		RefuseOfNode: pl.features.EnableDRANodeAllocatableResources, Pools: pl.state.Pool,
		ConsumerLimit: pl.consumerLimit,
		Planned: func(claim types.UID) (*resourceapi.AllocationResult, bool) {
			return pl.plannedFor(pod, claim, group)
		},
		BrokenBinding: func(claim *resourceapi.ResourceClaim) error { return pl.brokenBinding(pod, claim) },
		Legacy:        pl.legacy,
	}
	result, err := rules.Check(pod, claim)
	if err != nil {
		return nil, unschedulable("%v", err)
	}
	return result, nil
}

// prepare prepares the task for the claims without an allocation.
func (pl *Quartermaster) prepare(c *cycle) *fwk.Status {
	if c.extended != nil {
		return pl.prepareExtended(c)
	}
	claims := c.open()
	if len(claims) == 0 {
		c.pod.Wants(nil, nil)
		return nil
	}
	c.task = pl.solver.Prepare(claims)
	c.pod.Wants(claims, c.task)
	if err := c.task.Err(); err != nil {
		c.pod.Causes.Note(reasons.OfTask(err))
		return unschedulable("%v", err)
	}
	pl.prepareScore(c, c.task)
	return nil
}

// prepareScore lets Filter keep its solutions if some may be better than others.
func (pl *Quartermaster) prepareScore(c *cycle, task *allocator.Task) {
	if c.scored = pl.features.EnableDRAPrioritizedList && task.HasAlternatives(); c.scored {
		c.found = make(map[string][]resourceapi.AllocationResult)
	}
}
