package whatif

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// candidates yields the nodes in the order in which they are tried, with their index in
// world.nodes, or -1 if the world does not have the node. The order depends only on the nodes, not
// on how the snapshot was made.
func (s *Snapshot) candidates() iter.Seq2[int, *v1.Node] {
	return func(yield func(int, *v1.Node) bool) {
		added := s.addedNodes()
		for i := range s.world.nodes {
			for len(added) > 0 && s.world.before(added[0], s.world.nodes[i].node) {
				if !yield(-1, added[0]) {
					return
				}
				added = added[1:]
			}
			if node := s.nodeAt(i); node != nil && !yield(i, node) {
				return
			}
		}
		for _, node := range added {
			if !yield(-1, node) {
				return
			}
		}
	}
}

// nodeAt returns the snapshot's node at a position of the world, nil if it was removed.
func (s *Snapshot) nodeAt(i int) *v1.Node {
	node := s.world.nodes[i].node
	if len(s.nodes.change) > 0 {
		if changed, is := s.nodes.change[node.Name]; is {
			return changed
		}
	}
	return node
}

// addedNodes returns the nodes that the world does not have, in the order in which they are tried.
func (s *Snapshot) addedNodes() []*v1.Node {
	var added []*v1.Node
	for name, node := range s.nodes.change {
		if _, known := s.world.index[name]; !known && node != nil {
			added = append(added, node)
		}
	}
	slices.SortFunc(added, s.world.order)
	return added
}

// freeOn returns the resources that are left on a node, apart from devices.
func (s *Snapshot) freeOn(i int, node *v1.Node) room {
	free := room{}
	switch {
	case i < 0:
		free = roomOf(node.Status.Allocatable).minus(s.world.elsewhere[node.Name])
	case s.world.nodes[i].node == node:
		free = s.world.nodes[i].free
	default: // Another node of the same name has the same pods.
		taken := roomOf(s.world.nodes[i].node.Status.Allocatable).minus(s.world.nodes[i].free)
		free = roomOf(node.Status.Allocatable).minus(taken)
	}
	if taken, changed := s.taken[node.Name]; changed {
		free = free.minus(taken)
	}
	return free
}

// unwanted returns why a node excludes the pod, or the pod the node, "" if neither does.
func (s *Snapshot) unwanted(q *question, node *v1.Node) string {
	if name := q.pod.Spec.NodeName; name != "" && name != node.Name {
		return fmt.Sprintf("the pod is for node %s (spec.nodeName)", name)
	}
	tolerations := q.pod.Spec.Tolerations
	if node.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(klog.Background(), tolerations, &unschedulableTaint, false) {
		return "the node is cordoned (spec.unschedulable)"
	}
	if len(node.Spec.Taints) > 0 {
		taint, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}, false)
		if untolerated {
			return fmt.Sprintf("the node has taint %s, which the pod does not tolerate", taint.ToString())
		}
	}
	if matches, err := q.affinity.Match(node); err != nil || !matches {
		return "the node does not match the pod's node selector or affinity"
	}
	for i := range q.allocated {
		if nodes := q.allocated[i].nodes; nodes != nil && !nodes.Match(node) {
			return fmt.Sprintf("claim %s is allocated with devices that the node does not reach%s", q.allocated[i].claim.Name,
				s.heldBy(q.pod, q.allocated[i].claim))
		}
		if q.allocated[i].skips && !slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate) {
			return fmt.Sprintf("claim %s is allocated with devices that need a kubelet with the feature %s",
				q.allocated[i].claim.Name, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
		}
	}
	return ""
}

// heldBy says where the devices of a claim are, and for which other consumer it is reserved.
func (s *Snapshot) heldBy(pod *v1.Pod, claim *resourceapi.ResourceClaim) string {
	var texts []string
	if results := claim.Status.Allocation.Devices.Results; len(results) > 0 {
		text := fmt.Sprintf("%s/%s/%s", results[0].Driver, results[0].Pool, results[0].Device)
		if more := len(results) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, "it has "+text)
	}
	if node := onlyNodeOf(claim.Status.Allocation.NodeSelector); node != "" {
		texts = append(texts, "for node "+node)
	}
	for i := range claim.Status.ReservedFor {
		consumer := &claim.Status.ReservedFor[i]
		if consumer.UID == pod.UID && pod.UID != "" {
			continue
		}
		text := fmt.Sprintf("reserved for %s %s", strings.TrimSuffix(consumer.Resource, "s"), consumer.Name)
		if more := len(claim.Status.ReservedFor) - i - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, text)
		break
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, "; ") + ")"
}

// onlyNodeOf returns the node that a selector selects by name, "" if it selects in another way.
func onlyNodeOf(selector *v1.NodeSelector) string {
	if selector == nil || len(selector.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, field := range selector.NodeSelectorTerms[0].MatchFields {
		if field.Key == metav1.ObjectNameField && field.Operator == v1.NodeSelectorOpIn && len(field.Values) == 1 {
			return field.Values[0]
		}
	}
	return ""
}

var unschedulableTaint = v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}

// taskOn returns the task of allocating the pod's devices on the node, and its claims; nil if there
// is nothing to allocate.
func (q *question) taskOn(node *v1.Node) (*allocator.Task, []*resourceapi.ResourceClaim, error) {
	if q.extended == nil {
		return q.task, q.open, nil
	}
	variant, err := q.extended.VariantOn(node.Name, q.offeredBy(node))
	if err != nil {
		return nil, nil, err
	}
	return variant.Task, variant.Claims, nil
}

// site returns the allocator's view of a node.
func (s *Snapshot) site(node *v1.Node) (site allocator.NodeView, asBefore bool) {
	pools, asBefore := s.poolsOn(node)
	return allocator.NodeView{Node: node, Pools: pools, Usage: &s.usage}, asBefore
}

// devices judges the devices of a node, and what they take of it. The error is that of the context.
func (s *Snapshot) devices(ctx context.Context, q *question, i int, node *v1.Node) (verdict, error) {
	if v, err := s.available(ctx, q, i, node); err != nil || v != suffices {
		return v, err
	}
	return s.affords(ctx, q, i, node)
}

// available judges the devices of a node by themselves, with cached verdicts.
func (s *Snapshot) available(ctx context.Context, q *question, i int, node *v1.Node) (verdict, error) {
	task, claims, err := q.taskOn(node)
	if err != nil {
		return lacks, nil
	}
	if task == nil {
		return suffices, nil
	}
	site, asBefore := s.site(node)
	if !asBefore || i < 0 {
		return s.look(ctx, task, claims, site, i, asBefore)
	}
	known := q.known(s, task)
	if v := known.at(i); v != unknown {
		return v, nil
	}
	v, err := s.look(ctx, task, claims, site, i, asBefore)
	if err == nil && v != gaveUpInCommon {
		known.put(i, v)
	}
	return v, err
}

// look judges the devices of a node without the cache.
func (s *Snapshot) look(ctx context.Context, task *allocator.Task, claims []*resourceapi.ResourceClaim, site allocator.NodeView, i int, asBefore bool) (verdict, error) {
	if s.mostAt(i, site.Pools, asBefore) < leastOf(claims) {
		return lacks, nil
	}
	return check(ctx, task, site)
}

// known returns the cached verdicts of the world for a task.
func (q *question) known(s *Snapshot, task *allocator.Task) findings {
	known := q.keys[task]
	if known == nil {
		known = s.world.memory.of(task, len(s.world.nodes))
		q.keys[task] = known
	}
	return known
}

func check(ctx context.Context, task *allocator.Task, site allocator.NodeView) (verdict, error) {
	outcome, err := task.Check(ctx, site)
	switch {
	case err == nil && outcome.Fits():
		return suffices, nil
	case err == nil && outcome.GaveUp:
		outcome.Release()
		if outcome.CommonBudget {
			return gaveUpInCommon, nil
		}
		return gaveUp, nil
	case err == nil:
		outcome.Release()
		return lacks, nil
	case ctx.Err() != nil || errors.Is(err, allocator.ErrInterrupted):
		return unknown, err
	}
	return lacks, nil // The error concerns this node only.
}

// askedOf returns the resources that the pod takes of a node, apart from devices.
func (q *question) askedOf(node *v1.Node) room {
	offered := q.offeredBy(node)
	if len(offered) == 0 {
		return q.asked
	}
	asked := q.asked
	asked.others = maps.Clone(q.asked.others)
	if asked.others == nil {
		asked.others = make(map[v1.ResourceName]int64)
	}
	for name, amount := range offered {
		if amount > 0 { // Otherwise devices provide the resource, and NodeResourcesFit ignores it.
			asked.others[name] = q.requests.others[name]
		}
	}
	return asked
}

// offeredBy returns the amounts of the pod's extended resources that device plugins offer on a
// node. It returns nil if no DRA devices back any of these resources.
func (q *question) offeredBy(node *v1.Node) map[v1.ResourceName]int64 {
	if q.extended == nil {
		return nil
	}
	offered := make(map[v1.ResourceName]int64)
	for _, resource := range q.extended.Resources() {
		if amount, has := node.Status.Allocatable[resource.Name]; has {
			offered[resource.Name] = quantity.Value(amount)
		}
	}
	return offered
}
