package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Reserve puts the plan for the chosen node into the ledger, so that no other pod gets these devices while PreBind writes
// them. Nothing is written yet. If it fails, the scheduler calls Unreserve.
func (pl *Quartermaster) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	pl.state.turns.Placed(pod)
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if err := pl.stillUnbacked(cs); err != nil {
		return failed(err)
	}
	if c == nil {
		return nil
	}
	if c.dryRun != nil {
		d, err := preemption.DryRunIn(cs)
		if err != nil {
			return failed(err)
		}
		return pl.reserveInDryRun(ctx, c, d, nodeName)
	}
	if status := c.legacy.Negotiate(nodeName, c.task != nil); status != nil {
		pl.waker.Reject(c.pod)
		c.asksDrivers = true
		return status
	}
	if err := c.chooseExtended(nodeName); err != nil {
		return failed(err)
	}
	pl.begin(c, pod)
	if dra.PodGroupName(pod) == "" && coordinator.AssignmentIn(cs) == nil {
		c.attempt.AwaitRoom(ctx)
	}
	if status := pl.reserveShared(cs, c, pod); status != nil {
		return status
	}
	var plan []resourceapi.AllocationResult
	if c.task != nil {
		if c.pod.Learn() {
			pl.learner.Chose(pl.searchContext(ctx, c), pod, c.task, nodeName)
		}
		var status *fwk.Status
		if plan, status = pl.reservePlan(ctx, c, nodeName); status != nil {
			return status
		}
	}
	if err := pl.confirmCharge(c, pod, nodeName, plan); err != nil {
		c.pod.Causes.Note(reasons.Conflict)
		return failed(err)
	}
	if c.group != nil && plan != nil {
		c.setPlan(nodeName, plan) // The pod gets the same when it is reserved once more.
	}
	return nil
}

// reservePlan puts the plan for the pod's own claims in flight, and returns it.
func (pl *Quartermaster) reservePlan(ctx context.Context, c *cycle, nodeName string) ([]resourceapi.AllocationResult, *fwk.Status) {
	plan, status := pl.plan(ctx, c, nodeName)
	if status != nil {
		return nil, status
	}
	for i, podClaim := range c.unallocated() {
		if err := c.attempt.PutInFlight(&podClaim.Claim, &plan[i]); err != nil {
			return nil, failed(err)
		}
		c.attempt.Signal(&podClaim.Claim)
	}
	return plan, nil
}

// begin begins an attempt to commit the claims.
func (pl *Quartermaster) begin(c *cycle, pod *v1.Pod) {
	claims := make([]*commit.Claim, len(c.claims))
	for i, podClaim := range c.claims {
		claims[i] = &podClaim.Claim
	}
	c.attempt = pl.commits.Begin(pod, claims...)
	c.pod.Causes.Only(reasons.Committing)
}

// mostForReady limits how long a pod waits for the evaluation of an expression in place of a device that has to get ready. With slices that
// change all the time, there may always be something to evaluate.
const mostForReady = 30 * time.Second

// awaitsReady reports whether the pod should rather be tried again than get devices that have to get ready first, because the expressions in
// its claims are still being evaluated for other nodes.
func (pl *Quartermaster) awaitsReady(c *cycle, outcome *allocator.Outcome) bool {
	awaits := outcome.Value.NotReady > 0 && c.unevaluated.Load()
	return c.pod.AwaitsReady(awaits, time.Now()) < mostForReady && awaits
}

// plan returns the devices for the task on the chosen node: a stored plan, or the result of a new search.
func (pl *Quartermaster) plan(ctx context.Context, c *cycle, nodeName string) ([]resourceapi.AllocationResult, *fwk.Status) {
	if charge := c.charges[nodeName]; charge != nil {
		return charge.plan, nil
	}
	if plan := c.plans[nodeName]; plan != nil && len(plan) == len(c.unallocated()) {
		return plan, nil
	}
	node, err := pl.nodes.Get(nodeName)
	if err != nil {
		return nil, failed(fmt.Errorf("look for devices on node %s: %w", nodeName, err))
	}
	site := pl.valuedView(c, node)
	site.CountWhole = klog.FromContext(ctx).V(4).Enabled() // Only nodes.Choice.Tell needs it.
	outcome, err := c.task.Solve(pl.searchContext(ctx, c), site)
	switch {
	case isFilterTimeout(ctx, err):
		return nil, failed(fmt.Errorf("look for devices on node %s: given up after %s (filterTimeout); trying again: %w", nodeName, pl.args.FilterTimeout.Duration, err))
	case err != nil:
		return nil, failed(fmt.Errorf("look for devices on node %s: %w", nodeName, err))
	case !outcome.Fits():
		c.pod.Causes.Note(reasons.Conflict)
		return nil, failed(errors.New("the devices on node " + nodeName + " changed since it was chosen: " + outcome.Reason()))
	case outcome.Value.Failed > 0 && c.undecided.Load():
		c.pod.Causes.Note(reasons.Undecided)
		return nil, failed(errors.New("the devices on node " + nodeName + " failed to get ready for the pod before, " +
			"and it is not known yet whether other nodes have devices: a selector takes long to evaluate; trying again"))
	case pl.awaitsReady(c, outcome):
		c.pod.Causes.Note(reasons.Undecided)
		return nil, failed(errors.New("the devices on node " + nodeName + " have to get ready first, " +
			"and it is not known yet whether other nodes have ready devices: a selector takes long to evaluate; trying again"))
	}
	if c.objective != nil {
		nodes.Choice{
			Node: nodeName, Outcome: outcome, Strategy: string(c.strategy), DemandVersion: c.objective.Demand.Version, Ranking: c.ranking,
		}.Tell(klog.FromContext(ctx))
	}
	return outcome.Results, nil
}
