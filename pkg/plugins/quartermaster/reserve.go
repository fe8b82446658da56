package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Reserve puts the plan for the chosen node into the ledger, so that no other pod
// gets these devices while PreBind writes them. Nothing is written yet. If it
// fails, the scheduler calls Unreserve.
func (pl *Quartermaster) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if err := pl.stillUnserved(cs); err != nil {
		return failed(err)
	}
	if c == nil {
		return nil
	}
	if status := c.legacy.Negotiate(nodeName, c.task != nil); status != nil {
		pl.waker.Reject(c.pod)
		return status
	}
	if err := c.chooseExtended(nodeName); err != nil {
		return failed(err)
	}
	c.begin()
	group, err := pl.groupCycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if status := pl.reserveShared(cs, c, pod); status != nil {
		return status
	}
	var plan []resourceapi.AllocationResult
	if c.task != nil {
		if group != nil && c.regroupings[nodeName] != nil {
			r := c.regroupings[nodeName]
			if status := r.carryOut(pl, group, nodeName); status != nil {
				return status
			}
			c.setPlan(nodeName, r.plans[len(r.members)])
		}
		var status *fwk.Status
		if plan, status = pl.reservePlan(ctx, c, pod, nodeName); status != nil {
			return status
		}
	}
	if group != nil {
		c.keepForGroup(group, nodeName, plan)
	}
	return nil
}

// reservePlan puts what is planned for the pod itself in flight, and returns it.
func (pl *Quartermaster) reservePlan(ctx context.Context, c *cycle, pod *v1.Pod, nodeName string) ([]resourceapi.AllocationResult, *fwk.Status) {
	plan, status := pl.plan(ctx, c, nodeName)
	if status != nil {
		return nil, status
	}
	for i, podClaim := range c.unallocated() {
		if err := pl.putInFlight(c, pod.UID, podClaim, &plan[i]); err != nil {
			return nil, failed(err)
		}
		pl.signalInFlight(podClaim)
	}
	return plan, nil
}

// begin begins an attempt to commit the claims.
func (c *cycle) begin() {
	claims := make([]commit.Claim, len(c.claims))
	for i, podClaim := range c.claims {
		claims[i].OfGroup = podClaim.group != nil
		if podClaim.special != nil {
			claims[i].Takes = commit.WholeClaim
		}
	}
	c.attempt = commit.Begin(claims...)
}

// putInFlight keeps the devices that are planned for a claim from others.
func (pl *Quartermaster) putInFlight(c *cycle, pod types.UID, podClaim *podClaim, plan *resourceapi.AllocationResult) error {
	if err := pl.state.Ledger.AddInFlight(ledger.RefTo(podClaim.claim), pod, plan); err != nil {
		return err
	}
	podClaim.planned = plan
	c.attempt, _ = commit.Step(c.attempt, commit.Event{Kind: commit.PutInFlight, Claim: slices.Index(c.claims, podClaim)})
	return nil
}

// plan returns the devices for the task on the chosen node: those that it was scored
// for, or those that are there now.
func (pl *Quartermaster) plan(ctx context.Context, c *cycle, nodeName string) ([]resourceapi.AllocationResult, *fwk.Status) {
	if plan, found := c.plans[nodeName]; found {
		return plan, nil
	}
	node, err := pl.nodes.Get(nodeName)
	if err != nil {
		return nil, failed(fmt.Errorf("look for devices on node %s: %w", nodeName, err))
	}
	outcome, err := c.task.Solve(pl.searchContext(ctx, c), pl.site(node))
	switch {
	case isFilterTimeout(ctx, err):
		return nil, failed(fmt.Errorf("look for devices on node %s: given up after %s (filterTimeout), trying again: %w", nodeName, pl.args.FilterTimeout.Duration, err))
	case err != nil:
		return nil, failed(fmt.Errorf("look for devices on node %s: %w", nodeName, err))
	case !outcome.Fits():
		return nil, failed(errors.New("the devices on node " + nodeName + " changed since it was chosen: " + outcome.Reason()))
	}
	return outcome.Results, nil
}
