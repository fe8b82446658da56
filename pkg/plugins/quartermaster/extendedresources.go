package quartermaster

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// unbackedKey is the key in the cycle state of extended resources for which PreFilter found no class.
const unbackedKey fwk.StateKey = Name + ".Unbacked"

// noteUnbacked stores the resources without a class.
func noteUnbacked(cs fwk.CycleState, resources []extended.Resource) {
	if len(resources) > 0 {
		cs.Write(unbackedKey, extended.NewUnbacked(resources))
	}
}

// stillUnbacked returns an error if there is a class by now for any of the stored resources.
func (pl *Quartermaster) stillUnbacked(cs fwk.CycleState) error {
	if !pl.features.EnableDRAExtendedResource {
		return nil
	}
	names, _ := kube.Stored[extended.Unbacked](cs, unbackedKey)
	return names.Check(pl.handle.SharedDRAManager().DeviceClassResolver())
}

// demandExtended is PreFilter's step for a pod's extended resources. It sets up the demand for them, and adds the claim
// that an earlier attempt has left, or that the plan for the pod's group has, to the cycle's claims.
func (pl *Quartermaster) demandExtended(cs fwk.CycleState, c *cycle, pod *v1.Pod) *fwk.Status {
	if !c.needs.Backed() {
		noteUnbacked(cs, c.needs.Resources)
		return nil
	}
	pl.scoring.Begin()
	left, err := c.needs.Made()
	if err != nil {
		return failed(err)
	}
	c.extended = extended.NewDemand(pod, c.needs.Resources, left)
	if assignment := c.groupAssignment(); assignment != nil && assignment.Made != nil {
		c.extended.Make(assignment.Made)
	}
	assignment := pl.state.gangs.Assignment(pod.UID)
	expected := assignment != nil && assignment.Made != nil && c.extended.Found() == nil && pl.state.Ledger.InFlight(assignment.Made.UID) != nil
	if expected {
		c.extended.Expect(assignment.Made)
	}
	claim := c.extended.Found()
	if claim == nil {
		return nil
	}
	found, status := pl.checkClaim(pod, claim, nil, c.dryRun)
	if status != nil {
		return status
	}
	found.Origin = commit.Made
	if expected {
		found.Origin = commit.ToMake // Its allocation is in flight.
	}
	c.made = found
	c.claims = append(c.claims, found)
	return nil
}

// filterExtended implements filter for pods with extended resources.
func (pl *Quartermaster) filterExtended(ctx context.Context, l *look) *fwk.Status {
	variant, err := l.extended.VariantOn(l.node().Name, l.info.GetAllocatable().GetScalarResources())
	if err != nil {
		return unschedulable("%v", err)
	}
	l.task = variant.Task
	if variant == l.extended.Full() {
		l.known = l.cycle.known
	}
	status := pl.filterTask(ctx, l)
	if status.IsRejected() {
		return kube.New(status.Code(), variant.InPodsWords(status.Message()))
	}
	return status
}

// chooseExtended sets the cycle's task and claim for the chosen node.
func (c *cycleClaims) chooseExtended(nodeName string) error {
	if c.extended == nil {
		return nil
	}
	variant, err := c.extended.Choose(nodeName)
	if err != nil {
		return err
	}
	c.task = variant.Task
	if variant.Claim != nil && c.made == nil {
		c.claims = append(c.claims, &podClaim{Claim: commit.Claim{Object: variant.Claim, Origin: commit.ToMake}})
	}
	return nil
}

// leaveExtended undoes chooseExtended. The claim that an earlier attempt has left stays among the claims.
func (c *cycleClaims) leaveExtended() {
	if c.extended == nil || !c.extended.Leave() {
		return
	}
	c.task = nil
	c.claims = slices.DeleteFunc(c.claims, func(claim *podClaim) bool {
		return claim.Origin != commit.Given && claim != c.made
	})
}

// recordExtended writes into the pod's status which claim backs its extended resources, for the kubelet.
func (pl *Quartermaster) recordExtended(ctx context.Context, c *cycle, pod *v1.Pod) error {
	if c.extended == nil || c.extended.Chosen() == nil || c.extended.Chosen().Claim == nil {
		return nil
	}
	for _, podClaim := range c.claims {
		if podClaim.Origin == commit.Given {
			continue
		}
		if err := extended.Record(ctx, pl.handle.ClientSet(), pod, podClaim.Object, c.extended.Chosen().Mappings); err != nil {
			return err
		}
	}
	return nil
}

// removeMade deletes the claims that earlier attempts left, if the pod fits no node with them: other devices, or
// the node's own resources, may suffice. It returns whether there was any such claim. While Filter is undecided about a
// node, a usable claim stays.
func (pl *Quartermaster) removeMade(ctx context.Context, c *cycle, pod *v1.Pod) (bool, error) {
	if c.extended == nil {
		return false, nil
	}
	claims := c.extended.StaleClaims()
	if c.made != nil && c.made.Origin == commit.Made && !c.undecided.Load() {
		claims = append([]*resourceapi.ResourceClaim{c.made.Object}, claims...)
	}
	return pl.remover.RemoveMade(ctx, pod, claims, extended.FitsNowhere)
}
