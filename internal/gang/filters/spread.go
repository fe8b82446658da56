package filters

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
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// spreadState is the key of PodTopologySpread's data in the cycle state.
const spreadState fwk.StateKey = "PreFilter" + kube.PodTopologySpread

// notSpread is the reason for a refused node.
const notSpread = "node(s) didn't match pod topology spread constraints"

// spread holds the hard constraints of a class. PodTopologySpread itself tracks only the two domains with the fewest
// pods, which is enough for pods that come and go on one node. After pods were added to several nodes, its minimum may
// be wrong, and it may let pods pass that a fresh look would reject.
type spread struct {
	pod         *v1.Pod
	constraints []*constraint
}

// A constraint counts the matching pods by domain.
type constraint struct {
	*v1.TopologySpreadConstraint
	selector labels.Selector
	// self is 1 if the pod matches its own selector, else 0.
	self int
	pods map[string]int
	// domains is the number of domains by their number of pods, and lowest the smallest number of pods in any domain.
	domains map[int]int
	lowest  int
}

// newSpread returns nil if there are no hard constraints, or if the profile does not check them.
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

// selectorOf returns the selector of a constraint. The API server may have added the labels of MatchLabelKeys already.
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
		if match, _ := required.Match(node); !match { // As in kube-scheduler, an error means no match.
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

// matching returns the number of matching pods on a node.
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

// allows reports whether one more pod of the class on a node satisfies the constraints.
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

// add counts a pod of the gang on a node (by is 1), or removes it (by is -1).
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
