package quartermaster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// PreFilter looks up the pod's claims and prepares a task for those without an allocation. It rejects the pod if no
// node can fit, and returns the nodes that can if they are few.
//
// Pods of a gang get the node and devices in the gang's plan. No attempt goes on while this process does not lead.
func (pl *Quartermaster) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (result *fwk.PreFilterResult, status *fwk.Status) {
	// 1. Skip cycles in which only other plugins are asked. Wait while this process does not lead.
	if filters.IsApart(cs) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err := pl.awaitLease(ctx); err != nil {
		return nil, failed(err)
	}

	// 2. Plan the pod's gang, or look up what was planned.
	assignment, err := pl.beginGang(ctx, cs, pod, nodes)
	if err != nil {
		return nil, unschedulableFor(err)
	}

	// 3. Begin the attempt. A pod that needs no devices may still need resources that others with devices lack.
	c, status := pl.beginAttempt(ctx, cs, pod, nodes)
	if c == nil && status.IsSkip() && assignment == nil {
		return pl.placeWithoutDevices(ctx, cs, pod, nodes)
	}

	// 4. Prepare the search for devices, in the steps of preFilter.
	if c != nil {
		result, status = pl.preFilter(ctx, cs, c, pod, nodes)
		if status.IsRejected() && !status.IsSkip() || result != nil && !c.onlyBest {
			pl.waker.Reject(c.pod) // Nodes that are not returned count as rejected.
		}
	}

	// 5. Restrict a pod of a gang to the planned node.
	if assignment != nil && (status.IsSuccess() || status.IsSkip()) {
		return &fwk.PreFilterResult{NodeNames: sets.New(assignment.Node)}, nil
	}
	return result, status
}

// awaitLease holds an attempt up while this process does not lead, and with it the scheduler, which makes one attempt at a time. A
// process that was stopped goes on until it notices that its lease is over. Meanwhile it must write nothing, so each attempt would
// fail in PreBind, evict pods in vain, and have itself and others tried again. Once the process leads again, the attempt ends with
// an error: the nodes that it began with may have changed.
func (pl *Quartermaster) awaitLease(ctx context.Context) error {
	if err := pl.state.Lease.Await(ctx); err != nil {
		return fmt.Errorf("the attempt had to wait until this process leads; trying again: %w", err)
	}
	return nil
}

// preFilter implements PreFilter for a pod that may need devices, after its attempt has begun. Planning a gang uses it
// as well, for each kind of pods.
func (pl *Quartermaster) preFilter(ctx context.Context, cs fwk.CycleState, c *cycle, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	// 4.1. Join the pods of the PodGroup that is tried as a whole. The first of them plans for all.
	if err := pl.joinGroup(ctx, cs, c, pod, nodes); err != nil {
		return nil, failed(err)
	}

	// 4.2. Find the pod's claims. Skip the pod if neither claims nor extended resources need devices, or ever did.
	claims, status := findClaims(cs, c)
	if status != nil {
		return nil, status
	}

	// 4.3. Bring the state of the cluster up to date.
	if err := pl.state.Sync(ctx); err != nil {
		return nil, failed(err)
	}
	pl.learner.Seed(ctx)

	// 4.4. Keep devices for nominated pods, and for those that have waited for long. The pod must respect what is kept for others.
	undecided := pl.nominated.PlanNominated(selector.WithBudget(ctx, c.evaluation), pod)
	pl.respectHolds(ctx, c, pod)
	c.awaitPlans(undecided)

	// 4.5. Wait until an earlier attempt is undone.
	if pl.commits.IsReleasing(pod.UID) {
		c.pod.Causes.Note(reasons.ClaimInUse)
		return nil, unschedulable("what an earlier attempt wrote into the pod's claims could not be undone yet; " +
			"waiting for the API server to accept that")
	}

	// 4.6. Check that the pod can use its claims.
	if status := pl.checkClaims(c, pod, claims); status != nil {
		return nil, status
	}

	// 4.7. Add the claim for extended resources.
	if status := pl.demandExtended(cs, c, pod); status != nil {
		return nil, status
	}

	// 4.8. Prepare the task for the claims without an allocation.
	if status := pl.prepareTask(c, pod); status != nil {
		return nil, status
	}
	c.state = cs
	cs.Write(cycleKey, c)

	// 4.9. Choose the nodes to look at.
	return pl.chooseNodes(ctx, c, pod, nodes), nil
}

// beginAttempt begins an attempt to schedule a pod. It returns nil if the pod needs no devices.
func (pl *Quartermaster) beginAttempt(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*cycle, *fwk.Status) {
	needs := pl.needs.Of(pod)
	if pl.isResize(pod) || !needs.Any() {
		pl.waiting.Forget(pod.UID) // It may have needed devices before.
		noteUnbacked(cs, needs.Resources)
		return nil, fwk.NewStatus(fwk.Skip)
	}
	dryRun, err := preemption.BeginDryRun(ctx, cs, pod)
	if err != nil {
		return nil, failed(err)
	}
	pl.state.Free.Follow(nodes, dryRun != nil)
	return pl.newCycle(needs, dryRun, len(nodes)), nil
}

// newCycle returns the state at the beginning of an attempt. A dry run records nothing, so the pod has an entry of its
// own there.
func (pl *Quartermaster) newCycle(needs *eligibility.Needs, dryRun *preemption.DryRun, nodes int) *cycle {
	pod, budget := needs.Pod, int(*pl.args.AttemptStepBudget)
	c := &cycle{
		cycleClaims: cycleClaims{needs: needs},
		cycleNodes: cycleNodes{
			takes:      noderesources.Of(pod),
			steps:      allocator.NewSteps(budget, nodes),
			evaluation: selector.NewBudget(pl.attemptBudget, 0).For(pod.Namespace),
		},
		cyclePreemption: cyclePreemption{dryRun: dryRun, dryRunSteps: allocator.NewSteps(budget, nodes), usage: pl.state.Ledger},
	}
	if dryRun != nil {
		c.pod = queue.Apart(pod)
	} else {
		c.pod = pl.waiting.Begin(pod)
	}
	return c
}

// isResize reports whether the pod is in the queue only because it waits to be resized on its node. Its devices do not
// change (KEP-1287).
func (pl *Quartermaster) isResize(pod *v1.Pod) bool {
	return pl.features.EnableInPlacePodVerticalScalingSchedulerPreemption && resource.IsPodResizeDeferred(pod)
}
