package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Some devices stand for, or need, resources of their node such as CPU (KEP-5517). A pod on a node has the amounts in its
// status. For other pods they follow from the devices that they would get, by the rules of the in-tree plugin.

// charge holds what a pod takes of a node, its devices included.
type charge struct {
	asked room
	// byDevices is the part of asked that is not in the pod's spec.
	byDevices room
	// status is the status that the pod would get.
	status []v1.NodeAllocatableResourceClaimStatus
	// devices names the devices that take a resource.
	devices map[v1.ResourceName][]string
}

// lackingOf returns the first resource of a node's free ones that is short, nil if none is.
func (c *charge) lackingOf(free room) *shortfall {
	short := free.lackingOf(c.asked)
	if short != nil {
		short.byDevices, short.devices = c.byDevices.of(short.resource), c.devices[short.resource]
	}
	return short
}

// mayTakeOfNode reports whether devices that the pod has, or may get on a node, take resources of the node.
func (s *Snapshot) mayTakeOfNode(q *question, node *v1.Node) bool {
	if q.takesAlready || q.task == nil && q.extended == nil {
		return q.takesAlready
	}
	pools, _ := s.poolsOn(node)
	return slices.ContainsFunc(pools, func(pool *inventory.NodePool) bool {
		return pool.State == inventory.Complete && pool.Reachable.Intersects(pool.OfNode)
	})
}

// errNoPlan is the error of chargeOn if the search for devices does not find any.
var errNoPlan = errors.New("the search for devices gave up")

// chargeOn returns what the pod takes of a node with the devices that it would get there.
func (s *Snapshot) chargeOn(ctx context.Context, q *question, node *v1.Node) (*charge, error) {
	if !s.mayTakeOfNode(q, node) {
		return &charge{asked: q.askedOf(node)}, nil
	}
	task, claims, err := q.taskOn(node)
	if err != nil || task == nil {
		return s.charge(q, node, nil, nil)
	}
	site, _ := s.site(node)
	outcome, err := task.Solve(ctx, site)
	if err != nil {
		return nil, err
	}
	if !outcome.Fits() {
		return nil, errNoPlan
	}
	return s.charge(q, node, claims, outcome.Results)
}

// charge returns what the pod takes of a node with the given allocations of open claims. The error says why it cannot have them.
func (s *Snapshot) charge(q *question, node *v1.Node, claims []*resourceapi.ResourceClaim, results []resourceapi.AllocationResult) (*charge, error) {
	c := &charge{asked: q.askedOf(node), devices: make(map[v1.ResourceName][]string)}
	for i := range q.allocated {
		if err := c.add(s, q.allocated[i].claim, q.allocated[i].claim.Status.Allocation); err != nil {
			return nil, err
		}
	}
	for i, claim := range claims {
		if err := c.add(s, claim, &results[i]); err != nil {
			return nil, err
		}
	}
	if len(c.status) == 0 {
		return c, nil
	}
	slices.SortFunc(c.status, func(a, b v1.NodeAllocatableResourceClaimStatus) int {
		return cmp.Compare(a.ResourceClaimName, b.ResourceClaimName)
	})
	for _, containers := range [][]v1.Container{q.pod.Spec.InitContainers, q.pod.Spec.Containers} {
		for i := range containers {
			for _, reference := range containers[i].Resources.Claims {
				if status := c.of(q.names[reference.Name]); status != nil {
					status.Containers = append(status.Containers, containers[i].Name)
				}
			}
		}
	}
	pod := *q.pod
	pod.Status.NodeAllocatableResourceClaimStatuses = c.status
	c.byDevices = takenBy(&pod, nil).minus(q.requests)
	c.asked = c.asked.minus(c.byDevices.negated())
	return c, covered(&pod)
}

// of returns the status for a claim, nil if its devices take nothing.
func (c *charge) of(claim string) *v1.NodeAllocatableResourceClaimStatus {
	for i := range c.status {
		if c.status[i].ResourceClaimName == claim {
			return &c.status[i]
		}
	}
	return nil
}

// add adds what the devices of an allocation take.
func (c *charge) add(s *Snapshot, claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) error {
	if !s.takesOfNode(allocation, anyResource) {
		return nil
	}
	if podclaims.MadeFor(claim) != "" {
		return errors.New("the devices for the pod's extended resources stand for or need resources of the node; " +
			"such devices can only be had by a ResourceClaim")
	}
	mapped := make(map[v1.ResourceName]resource.Quantity)
	overhead := make(map[v1.ResourceName]*v1.NodeAllocatableOverheadResources)
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		id := ledger.PoolOf(result).String() + "/" + result.Device
		device := s.published(result)
		if device == nil {
			return fmt.Errorf("claim %s: device %s is not published any more, so it is not known what it takes of the node", claim.Name, id)
		}
		for name, takes := range device.NodeAllocatableResources {
			c.devices[name] = append(c.devices[name], id)
			if takes.Mapping != nil {
				if err := addMapping(mapped, name, takes.Mapping, result); err != nil {
					return fmt.Errorf("claim %s: device %s: %w", claim.Name, id, err)
				}
			}
			addOverhead(overhead, name, takes.Overhead)
		}
	}
	if len(mapped)+len(overhead) == 0 {
		return nil
	}
	status := v1.NodeAllocatableResourceClaimStatus{ResourceClaimName: claim.Name}
	for _, name := range slices.Sorted(maps.Keys(mapped)) {
		quantity := mapped[name]
		status.Mapping = append(status.Mapping, v1.NodeAllocatableMappedResources{Name: name, Quantity: &quantity})
	}
	for _, name := range slices.Sorted(maps.Keys(overhead)) {
		status.Overhead = append(status.Overhead, *overhead[name])
	}
	c.status = append(c.status, status)
	return nil
}

// addMapping adds the amount of a resource that a device stands for.
func addMapping(sum map[v1.ResourceName]resource.Quantity, name v1.ResourceName, m *resourceapi.NodeAllocatableMapping, result *resourceapi.DeviceRequestAllocationResult) error {
	switch {
	case m.CapacityKey != nil && *m.CapacityKey != "":
		if result.ConsumedCapacity == nil {
			return fmt.Errorf("it stands for %s by its capacity %s, but the allocation does not say how much of that it consumes", name, *m.CapacityKey)
		}
		if consumed, found := result.ConsumedCapacity[*m.CapacityKey]; found {
			if m.CapacityMultiplier != nil {
				consumed = quantity.Product(consumed, *m.CapacityMultiplier)
			}
			sum[name] = quantity.Sum(sum[name], consumed)
		}
	case m.DeviceMultiplier != nil:
		sum[name] = quantity.Sum(sum[name], *m.DeviceMultiplier)
	}
	return nil
}

// addOverhead adds the amount of a resource that the user of a device needs.
func addOverhead(sum map[v1.ResourceName]*v1.NodeAllocatableOverheadResources, name v1.ResourceName, needs *resourceapi.NodeAllocatableOverhead) {
	if needs == nil || needs.PerPod == nil && needs.PerContainer == nil {
		return
	}
	if sum[name] == nil {
		sum[name] = &v1.NodeAllocatableOverheadResources{Name: name}
	}
	sum[name].PerPod = plus(sum[name].PerPod, needs.PerPod)
	sum[name].PerContainer = plus(sum[name].PerContainer, needs.PerContainer)
}

// plus returns a + b, where nil is nothing.
func plus(a, b *resource.Quantity) *resource.Quantity {
	if b == nil {
		return a
	}
	sum := resource.Quantity{Format: b.Format}
	if a != nil {
		sum = *a
	}
	sum = quantity.Sum(sum, *b)
	return &sum
}

// covered fails if resources that the pod asks for as a whole do not cover its containers together with its devices. The API server
// checks only the containers.
func covered(pod *v1.Pod) error {
	whole := pod.Spec.Resources
	if whole == nil {
		return nil
	}
	exceeds := func(list v1.ResourceList, name v1.ResourceName, least resource.Quantity) bool {
		most, set := list[name]
		return set && !quantity.Of(most).Covers(quantity.Of(least))
	}
	isHuge := func(name v1.ResourceName) bool { return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) }
	options := resourcehelper.PodResourcesOptions{SkipPodLevelResources: true, UseDRANodeAllocatableResourceClaimStatus: true}
	for name, sum := range resourcehelper.AggregateContainerRequests(pod, options) {
		if resourcehelper.IsSupportedPodLevelResource(name) && exceeds(whole.Requests, name, sum) {
			return fmt.Errorf("the pod's request for %s (spec.resources) does not cover its containers and devices, which take %s", name, sum.String())
		}
	}
	for name, sum := range resourcehelper.AggregateContainerLimits(pod, options) {
		if isHuge(name) && exceeds(whole.Limits, name, sum) {
			return fmt.Errorf("the pod's limit for %s (spec.resources) does not cover its containers and devices, which may take %s", name, sum.String())
		}
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		devices := resourcehelper.GetContainerDRAAllocations(pod, container.Name)
		for name, limit := range container.Resources.Limits {
			if sum := quantity.Sum(limit, devices[name]); !isHuge(name) && exceeds(whole.Limits, name, sum) {
				return fmt.Errorf("the pod's limit for %s (spec.resources) does not cover container %s and its devices, which may take %s", name, container.Name, sum.String())
			}
		}
	}
	return nil
}

// anyResource and isMapped say which devices takesOfNode looks for.
func anyResource(resourceapi.NodeAllocatableResource) bool { return true }
func isMapped(r resourceapi.NodeAllocatableResource) bool  { return r.Mapping != nil }

// takesOfNode reports whether a published device of an allocation takes resources of the node in a certain way.
func (s *Snapshot) takesOfNode(allocation *resourceapi.AllocationResult, how func(resourceapi.NodeAllocatableResource) bool) bool {
	return slices.ContainsFunc(allocation.Devices.Results, func(result resourceapi.DeviceRequestAllocationResult) bool {
		device := s.published(&result)
		return device != nil && slices.ContainsFunc(slices.Collect(maps.Values(device.NodeAllocatableResources)), how)
	})
}

// published returns a device of an allocation, nil if it is not published any more.
func (s *Snapshot) published(result *resourceapi.DeviceRequestAllocationResult) *inventory.Device {
	if pool := s.Pool(ledger.PoolOf(result)); pool != nil {
		return pool.Device(result.Device)
	}
	return nil
}

// checkShared fails if a claim with devices that stand for resources of the node is in use by another pod.
func (s *Snapshot) checkShared(pod *v1.Pod, claim *resourceapi.ResourceClaim) error {
	if len(claim.Status.ReservedFor) == 0 || resourceclaim.IsReservedForPod(pod, claim, true) || !s.takesOfNode(claim.Status.Allocation, isMapped) {
		return nil
	}
	return fmt.Errorf("claim %s has a device that stands for resources of its node, so it is for one pod only%s; use a claim template",
		claim.Name, s.heldBy(pod, claim))
}

// affords judges whether a node whose devices suffice has the resources that they take of it.
func (s *Snapshot) affords(ctx context.Context, q *question, i int, node *v1.Node) (verdict, error) {
	if !s.mayTakeOfNode(q, node) {
		return suffices, nil // mayRun has looked at the rest.
	}
	switch c, err := s.chargeOn(ctx, q, node); {
	case err != nil && (ctx.Err() != nil || errors.Is(err, allocator.ErrInterrupted)):
		return unknown, err
	case errors.Is(err, errNoPlan):
		return gaveUpInCommon, nil
	case err != nil || c.lackingOf(s.freeOn(i, node)) != nil:
		return lacks, nil
	}
	return suffices, nil
}
