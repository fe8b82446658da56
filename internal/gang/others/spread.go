package others

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
)

// spreadState is where PodTopologySpread keeps what it knows in the state of an attempt.
const spreadState fwk.StateKey = "PreFilter" + names.PodTopologySpread

// notSpread is why a node is refused.
const notSpread = "node(s) didn't match pod topology spread constraints"

// spread are the constraints of a class that have to be satisfied. PodTopologySpread keeps track of the two domains with
// the fewest pods only, which is enough for pods that come and go on one node. After pods were added to several it may take
// another number for the lowest, and let pods pass that it would not if it looked again.
type spread struct {
	pod         *v1.Pod
	constraints []*constraint
}

// constraint has how many matching pods there are by domain.
type constraint struct {
	*v1.TopologySpreadConstraint
	selector labels.Selector
	// self is whether the pod matches itself.
	self int
	pods map[string]int
	// domains are how many have so many pods, and lowest is the number of pods in the one with the fewest.
	domains map[int]int
	lowest  int
}

// newSpread returns nil if there are no such constraints, or if the profile does not look at them.
func newSpread(pod *v1.Pod, state fwk.CycleState, nodes []fwk.NodeInfo) (*spread, error) {
	s := &spread{pod: pod}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &constraint{TopologySpreadConstraint: &pod.Spec.TopologySpreadConstraints[i], pods: make(map[string]int), domains: make(map[int]int)}
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		var err error
		if c.selector, err = selectorOf(c.TopologySpreadConstraint, pod); err != nil {
			return nil, fmt.Errorf("understand the selector of a topology spread constraint of pod %s: %w; correct it", klog.KObj(pod), err)
		}
		if c.selector.Matches(labels.Set(pod.Labels)) {
			c.self = 1
		}
		s.constraints = append(s.constraints, c)
	}
	if _, err := state.Read(spreadState); len(s.constraints) == 0 || err != nil {
		return nil, nil
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, info := range nodes {
		for _, c := range s.constraints {
			if s.counts(c, info.Node(), required) {
				c.pods[info.Node().Labels[c.TopologyKey]] += c.matching(info, pod.Namespace)
			}
		}
	}
	for _, c := range s.constraints {
		c.lowest = math.MaxInt32
		for _, pods := range c.pods {
			c.domains[pods]++
			c.lowest = min(c.lowest, pods)
		}
	}
	return s, nil
}

// selectorOf is the selector of a constraint. The API server may have added the labels of MatchLabelKeys already.
func selectorOf(c *v1.TopologySpreadConstraint, pod *v1.Pod) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, err
	}
	for _, key := range c.MatchLabelKeys {
		if value, found := pod.Labels[key]; found {
			requirements, _ := labels.SelectorFromSet(labels.Set{key: value}).Requirements()
			selector = selector.Add(requirements...)
		}
	}
	return selector, nil
}

// counts reports whether pods on a node count for a constraint.
func (s *spread) counts(c *constraint, node *v1.Node, required nodeaffinity.RequiredNodeAffinity) bool {
	for _, other := range s.constraints {
		if _, found := node.Labels[other.TopologyKey]; !found {
			return false
		}
	}
	if ptr.Deref(c.NodeAffinityPolicy, v1.NodeInclusionPolicyHonor) == v1.NodeInclusionPolicyHonor {
		if match, _ := required.Match(node); !match { // An error does not count, as for kube-scheduler.
			return false
		}
	}
	if ptr.Deref(c.NodeTaintsPolicy, v1.NodeInclusionPolicyIgnore) == v1.NodeInclusionPolicyHonor {
		_, untolerated := corev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, s.pod.Spec.Tolerations, func(t *v1.Taint) bool {
			return t.Effect != v1.TaintEffectPreferNoSchedule
		}, false)
		return !untolerated
	}
	return true
}

// matching returns how many pods of a node match.
func (c *constraint) matching(info fwk.NodeInfo, namespace string) (n int) {
	if c.selector.Empty() {
		return 0
	}
	for _, other := range info.GetPods() {
		pod := other.GetPod()
		if pod.Namespace == namespace && pod.DeletionTimestamp == nil && c.selector.Matches(labels.Set(pod.Labels)) {
			n++
		}
	}
	return n
}

// allows reports whether one more pod of the class on a node keeps the constraints.
func (s *spread) allows(node *v1.Node) bool {
	for _, c := range s.constraints {
		value, found := node.Labels[c.TopologyKey]
		lowest := c.lowest
		if len(c.pods) < int(ptr.Deref(c.MinDomains, 1)) {
			lowest = 0
		}
		if !found || c.pods[value]+c.self-lowest > int(c.MaxSkew) {
			return false
		}
	}
	return true
}

// add counts a pod of the gang on a node, or takes it away if by is -1.
func (s *spread) add(pod *v1.Pod, node *v1.Node, by int) {
	if pod.Namespace != s.pod.Namespace {
		return
	}
	required := nodeaffinity.GetRequiredNodeAffinity(s.pod)
	for _, c := range s.constraints {
		if c.selector.Empty() || !c.selector.Matches(labels.Set(pod.Labels)) || !s.counts(c, node, required) {
			continue
		}
		value := node.Labels[c.TopologyKey]
		before := c.pods[value]
		c.pods[value] = before + by
		c.domains[before]--
		c.domains[before+by]++
		c.lowest = min(c.lowest, before+by)
		for c.domains[c.lowest] == 0 {
			c.lowest++
		}
	}
}
