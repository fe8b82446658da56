package nodes

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// DependsOnPods reports whether the nodes that admit the pod depend on other pods.
func DependsOnPods(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil && len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0) ||
		slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == v1.DoNotSchedule
		}) ||
		slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(port v1.ContainerPort) bool { return port.HostPort > 0 })
		})
}

// AsksForMore reports whether the pod requests resources of a node other than CPU, memory and storage.
func AsksForMore(pod *v1.Pod) bool {
	for name := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		if name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage {
			return true
		}
	}
	return false
}

// IsSelective reports whether the pod admits only nodes with some labels.
func IsSelective(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return len(pod.Spec.NodeSelector) > 0 ||
		affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

// HasPreferences reports whether the pod says itself which nodes it prefers.
func HasPreferences(pod *v1.Pod) bool {
	if affinity := pod.Spec.Affinity; affinity != nil &&
		(affinity.NodeAffinity != nil && len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			affinity.PodAffinity != nil && len(affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0) {
		return true
	}
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.ScheduleAnyway
	})
}

// Discourages reports whether a node has a taint PreferNoSchedule that the pod does not tolerate.
func Discourages(logger klog.Logger, node *v1.Node, pod *v1.Pod) bool {
	if len(node.Spec.Taints) == 0 {
		return false
	}
	_, found := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectPreferNoSchedule
	}, true)
	return found
}

// Admission returns a function that reports whether a node admits the pod by the data of the two
// alone: node selector, node affinity, taints.
func Admission(logger klog.Logger, pod *v1.Pod) func(*v1.Node) bool {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	return func(node *v1.Node) bool {
		if node.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(logger, pod.Spec.Tolerations, &unschedulable, true) {
			return false
		}
		if len(node.Spec.Taints) > 0 {
			if _, refused := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, pod.Spec.Tolerations, keepsAway, true); refused {
				return false
			}
		}
		match, err := required.Match(node)
		return match || err != nil // The NodeAffinity plugin judges errors.
	}
}

// Accepts is Admission by the name of the node, with an additional condition.
func Accepts(logger klog.Logger, pod *v1.Pod, nodes corelisters.NodeLister, also func(*v1.Node) bool) func(name string) bool {
	admits := Admission(logger, pod)
	return func(name string) bool {
		node, err := nodes.Get(name)
		return err == nil && admits(node) && also(node)
	}
}

// unschedulable is the taint that is equivalent to spec.unschedulable.
var unschedulable = v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}

func keepsAway(taint *v1.Taint) bool {
	return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
}
