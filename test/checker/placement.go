package checker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/structured"
)

// maxSteps is the maximum number of times that the search for places of several pods puts a pod on a node.
const maxSteps = 20_000

// errTooMany is the error of a search that has reached its limit.
var errTooMany = errors.New("too many ways")

// candidate is a pod that waits only for a node.
type candidate struct {
	pod     *corev1.Pod
	claims  []*resourceapi.ResourceClaim
	volumes []*corev1.PersistentVolumeClaim
	// needs holds the needs of the pod by node.
	needs map[*corev1.Node]need
}

// need holds the resources and claims that a pod needs on a node.
type need struct {
	possible bool
	room     corev1.ResourceList
	// claims are the claims of the pod, and the claim for its extended resources.
	claims []*resourceapi.ResourceClaim
}

// candidate returns nil for a pod that waits for something else than a node.
func (o *oracle) candidate(pod *corev1.Pod) *candidate {
	claims, ready := o.claimsFor(pod)
	if !ready {
		return nil
	}
	volumes, ready := o.claimsOf(pod)
	if !ready {
		return nil
	}
	return &candidate{pod: pod, claims: claims, volumes: volumes, needs: map[*corev1.Node]need{}}
}

// on returns the needs of the pod on a node. The node itself, the volumes and the allocated claims decide whether the pod may be
// there alone.
func (c *candidate) on(node *corev1.Node, o *oracle, together bool) need {
	if known, found := c.needs[node]; found {
		return known
	}
	n, taken := need{claims: c.claims}, map[string]*corev1.PersistentVolume{}
	room, extended := o.extendedClaim(c.pod, node)
	n.room = room
	if extended != nil {
		n.claims = append(n.claims[:len(n.claims):len(n.claims)], extended)
	}
	// Which of several volumes pods of a gang take is not planned for them together.
	// If the status names a claim for extended resources, the kubelet waits for that one.
	backed := extended != nil || c.pod.Status.ExtendedResourceClaimStatus == nil
	n.possible = backed && suits(node, c.pod) && o.reach(c.volumes, node, taken) && (len(taken) == 0 || !together) &&
		!slices.ContainsFunc(c.claims, func(claim *resourceapi.ResourceClaim) bool { return !usableOn(node, claim.Status.Allocation) })
	c.needs[node] = n
	return n
}

// placement is a pod with its node and its devices.
type placement struct {
	pod     *corev1.Pod
	node    *corev1.Node
	devices []string
}

func (p placement) String() string {
	if len(p.devices) == 0 {
		return fmt.Sprintf("pod %s on node %s", p.pod.Name, p.node.Name)
	}
	return fmt.Sprintf("pod %s on node %s with %s", p.pod.Name, p.node.Name, strings.Join(p.devices, " and "))
}

func placements(all []placement) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}

// search tries all nodes for one pod after the other.
type search struct {
	*oracle
	pods []*candidate
	// on holds the nodes of the first pods, nil for a pod that is left out.
	on []*corev1.Node
	// fit records whether a set of pods fits on a node without others.
	fit   map[string]bool
	steps int
	found []placement
	err   error
}

// place looks for nodes for lacks of the pods together, and returns nil if there are none.
func (o *oracle) place(ctx context.Context, pods []*candidate, lacks int) ([]placement, error) {
	s := &search{oracle: o, pods: pods, fit: map[string]bool{}, steps: maxSteps + len(o.nodes)}
	s.from(ctx, lacks)
	return s.found, s.err
}

// from places lacks of the pods that come after those in s.on. It returns true when the search is over.
func (s *search) from(ctx context.Context, lacks int) bool {
	i := len(s.on)
	switch {
	case lacks == 0:
		return s.together(ctx)
	case len(s.pods)-i < lacks:
		return false
	}
	for _, node := range append(slices.Clone(s.nodes), nil) {
		if s.steps--; s.steps < 0 {
			s.err = errTooMany
			return true
		}
		left := lacks
		if node != nil {
			left--
		}
		s.on = append(s.on, node)
		if (node == nil || s.fits(ctx, node)) && s.from(ctx, left) {
			return true
		}
		s.on = s.on[:i]
	}
	return false
}

// podsOn returns the pods that were put on a node, and a key for this set.
func (s *search) podsOn(node *corev1.Node) (pods []*candidate, key string) {
	key = node.Name
	for i, on := range s.on {
		if on == node {
			pods, key = append(pods, s.pods[i]), fmt.Sprintf("%s %d", key, i)
		}
	}
	return pods, key
}

// fits reports whether the pods on the node fit there without all other pods.
func (s *search) fits(ctx context.Context, node *corev1.Node) bool {
	pods, key := s.podsOn(node)
	fits, known := s.fit[key]
	if known {
		return fits
	}
	var rooms []corev1.ResourceList
	possible := true
	for _, c := range pods {
		need := c.on(node, s.oracle, len(s.pods) > 1)
		rooms, possible = append(rooms, need.room), possible && need.possible
	}
	if possible && s.hasRoom(node, rooms, len(pods)) {
		_, fits = s.allocateOn(ctx, s.allocated(s.isLeft), map[*resourceapi.ResourceClaim]*resourceapi.AllocationResult{}, node)
	}
	s.fit[key] = fits
	return fits
}

// together reports whether the pods fit where they were put, one node after the other, and records the result. Devices that
// claims get on one node are taken from the other nodes, and pods that share a claim have to reach its devices.
func (s *search) together(ctx context.Context) bool {
	state, got := s.allocated(s.isLeft), map[*resourceapi.ResourceClaim]*resourceapi.AllocationResult{}
	made := map[*corev1.PersistentVolumeClaim]*corev1.Node{}
	var found []placement
	for i, node := range s.on {
		if node == nil {
			continue
		}
		for _, claim := range s.pods[i].volumes {
			if other := made[claim]; other != nil && other != node && !isBound(claim) {
				return false
			}
			made[claim] = node
		}
		if slices.Contains(s.on[:i], node) {
			continue
		}
		var fits bool
		if state, fits = s.allocateOn(ctx, state, got, node); !fits {
			return false
		}
	}
	for i, node := range s.on {
		if node != nil {
			found = append(found, placement{s.pods[i].pod, node, devicesOf(s.pods[i].needs[node].claims, got)})
		}
	}
	s.found = found
	return true
}

// allocateOn allocates devices to the open claims of the pods on a node, and returns the state after that.
func (s *search) allocateOn(ctx context.Context, state structured.AllocatedState, got map[*resourceapi.ResourceClaim]*resourceapi.AllocationResult, node *corev1.Node) (structured.AllocatedState, bool) {
	pods, _ := s.podsOn(node)
	var open []*resourceapi.ResourceClaim
	for _, c := range pods {
		for _, claim := range c.on(node, s.oracle, len(s.pods) > 1).claims {
			if !usableOn(node, got[claim]) {
				return state, false
			}
			if claim.Status.Allocation == nil && got[claim] == nil && !slices.Contains(open, claim) {
				open = append(open, claim)
			}
		}
	}
	if len(open) == 0 {
		return state, s.hasRoomFor(pods, node, got)
	}
	allocator, err := s.allocator(ctx, state)
	if err != nil {
		s.err = err
		return state, false
	}
	results := allocate(ctx, allocator, node, open)
	for i := range results {
		got[open[i]] = &results[i]
		for j := range results[i].Devices.Results {
			take(state, &results[i].Devices.Results[j])
		}
	}
	return state, len(results) == len(open) && s.hasRoomFor(pods, node, got)
}

// hasRoomFor reports whether the node has the resources that pods request and that their devices stand for.
func (s *search) hasRoomFor(pods []*candidate, node *corev1.Node, got map[*resourceapi.ResourceClaim]*resourceapi.AllocationResult) bool {
	taken, possible := s.takenTogether(pods, node, got)
	if len(taken) == 0 {
		return possible // Looked at before.
	}
	for _, c := range pods {
		taken = append(taken, c.on(node, s.oracle, len(s.pods) > 1).room)
	}
	return s.hasRoom(node, taken, len(pods))
}

// isLeft reports whether one of the pods would use or delete the claim, because an earlier attempt for that pod has made it.
func (s *search) isLeft(claim *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(s.pods, func(c *candidate) bool { return isLeftOf(c.pod, claim) })
}

func devicesOf(claims []*resourceapi.ResourceClaim, got map[*resourceapi.ResourceClaim]*resourceapi.AllocationResult) []string {
	var texts []string
	for _, claim := range claims {
		if allocation := got[claim]; allocation != nil {
			var names []string
			for i := range allocation.Devices.Results {
				names = append(names, deviceOf(&allocation.Devices.Results[i]).String())
			}
			texts = append(texts, fmt.Sprintf("%s for claim %s", strings.Join(names, " "), claim.Name))
		}
	}
	return texts
}

// hasRoom reports whether the node has resources that more pods need.
func (s *snapshot) hasRoom(node *corev1.Node, needed []corev1.ResourceList, more int) bool {
	free, pods := corev1.ResourceList{}, int64(more)
	maps.Copy(free, node.Status.Allocatable)
	take := func(list corev1.ResourceList) {
		for name, amount := range list {
			left := free[name]
			left.Sub(amount)
			free[name] = left
		}
	}
	for _, other := range s.pods {
		if other.Spec.NodeName == node.Name && !finished(other) {
			pods++
			take(podresource.PodRequests(other, podresource.PodResourcesOptions{UseDRANodeAllocatableResourceClaimStatus: true}))
		}
	}
	for _, list := range needed {
		take(list)
	}
	for _, list := range needed {
		for name, amount := range list {
			if left := free[name]; !amount.IsZero() && left.Sign() < 0 {
				return false
			}
		}
	}
	return pods <= free.Pods().Value()
}
