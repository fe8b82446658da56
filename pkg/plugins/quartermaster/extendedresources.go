package quartermaster

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
)

// extendedResources returns the extended resources in the requests of a pod's containers. It is
// nil for pods that ask for none, and if the feature is off.
func (pl *Quartermaster) extendedResources(pod *v1.Pod) []extendedresource.Resource {
	if !pl.features.EnableDRAExtendedResource {
		return nil
	}
	return extendedresource.Of(pod, pl.handle.SharedDRAManager().DeviceClassResolver())
}

// unservedKey is where PreFilter notes extended resources for which there was no class.
const unservedKey fwk.StateKey = Name + ".Unserved"

// noteUnserved notes the resources without a class.
func noteUnserved(cs fwk.CycleState, resources []extendedresource.Resource) {
	if len(resources) > 0 {
		cs.Write(unservedKey, extendedresource.NewUnserved(resources))
	}
}

// stillUnserved fails if there is a class by now for what PreFilter has noted.
func (pl *Quartermaster) stillUnserved(cs fwk.CycleState) error {
	if !pl.features.EnableDRAExtendedResource {
		return nil
	}
	data, err := cs.Read(unservedKey)
	if err != nil {
		return nil // There are none.
	}
	names, _ := data.(extendedresource.Unserved)
	return names.Check(pl.handle.SharedDRAManager().DeviceClassResolver())
}

// demandExtended begins with the extended resources of a pod. It adds the claim that an
// earlier attempt has left to those of the cycle.
func (pl *Quartermaster) demandExtended(cs fwk.CycleState, c *cycle, pod *v1.Pod, resources []extendedresource.Resource) *fwk.Status {
	if !extendedresource.AnyServed(resources) {
		noteUnserved(cs, resources)
		return nil
	}
	pl.scoring.Begin()
	left, err := extendedresource.LeftOver(pod, pl.state.Claims, pl.claims.Claim)
	if err != nil {
		return failed(err)
	}
	c.extended = extendedresource.NewDemand(pod, resources, left)
	claim := c.extended.Found()
	if claim == nil {
		return nil
	}
	found, status := pl.checkClaim(pod, claim, nil)
	if status != nil {
		return status
	}
	found.special = &specialClaim{created: true}
	c.leftOver = found
	c.claims = append(c.claims, found)
	return nil
}

// prepareExtended makes the task of most nodes.
func (pl *Quartermaster) prepareExtended(c *cycle) *fwk.Status {
	c.extended.Prepare(c.open(), pl.solver.Prepare, pl.storesExtended)
	full := c.extended.Full()
	c.pod.Wants(full.Claims, full.Task)
	c.pod.WantsExtended(full.Claim, c.leftOver != nil || len(c.extended.Obsolete()) > 0)
	if full.Task != nil {
		if err := full.Task.Err(); err != nil {
			return waiting("%v", err)
		}
		pl.prepareScore(c, full.Task)
	}
	return nil
}

// filterExtended is filter for pods with extended resources.
func (pl *Quartermaster) filterExtended(ctx context.Context, c *cycle, nodeInfo fwk.NodeInfo) *fwk.Status {
	variant, err := c.extended.VariantOn(nodeInfo.Node().Name, nodeInfo.GetAllocatable().GetScalarResources())
	if err != nil {
		return waiting("%v", err)
	}
	known := c.known
	if variant != c.extended.Full() {
		known = nil
	}
	status := pl.filterTask(ctx, c, variant.Task, known, nodeInfo.Node())
	if status.Code() == fwk.UnschedulableAndUnresolvable {
		return waiting("%s", variant.InPodsWords(status.Message()))
	}
	return status
}

// chooseExtended makes what the chosen node has to give what the cycle has to allocate.
func (c *cycle) chooseExtended(nodeName string) error {
	if c.extended == nil {
		return nil
	}
	variant, err := c.extended.Choose(nodeName)
	if err != nil {
		return err
	}
	c.task = variant.Task
	if variant.Claim != nil && c.leftOver == nil {
		c.claims = append(c.claims, &podClaim{claim: variant.Claim, special: &specialClaim{}})
	}
	return nil
}

// leaveExtended is the opposite of chooseExtended. A claim that was written stays, so that
// nobody takes it for one that is not.
func (c *cycle) leaveExtended() {
	if c.extended == nil || !c.extended.Leave() {
		return
	}
	c.task = nil
	c.claims = slices.DeleteFunc(c.claims, func(claim *podClaim) bool {
		return claim.special != nil && claim != c.leftOver
	})
}

// recordExtended tells the kubelet which claim serves the pod's extended resources.
func (pl *Quartermaster) recordExtended(ctx context.Context, c *cycle, pod *v1.Pod) error {
	if c.extended == nil || c.extended.Chosen() == nil || c.extended.Chosen().Claim == nil {
		return nil
	}
	for _, podClaim := range c.claims {
		if podClaim.special == nil {
			continue
		}
		if err := extendedresource.Record(ctx, pl.handle.ClientSet(), pod, podClaim.claim, c.extended.Chosen().Mappings); err != nil {
			return err
		}
	}
	return nil
}
