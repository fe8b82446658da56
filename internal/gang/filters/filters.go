package filters

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Framework is the part of kube-scheduler's Framework that this package needs.
type Framework interface {
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status
	RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, podToSchedule *v1.Pod, podInfoToAdd fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status
	RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, podToSchedule *v1.Pod, podInfoToRemove fwk.PodInfo, nodeInfo fwk.NodeInfo) *fwk.Status
	NominatedPodsForNode(nodeName string) []fwk.PodInfo
}

// Others implements devices.Others.
type Others struct {
	ctx context.Context
	run Framework
	// nodes are the nodes of the snapshot. changed holds those with pods of the gang, with these pods added.
	nodes   []fwk.NodeInfo
	changed map[int]fwk.NodeInfo
	classes []*class
	// repelling is set if any class has required anti-affinity.
	repelling bool
	added     []added
	// refused holds the last reason why a node refused a class, by class and then by position of the node.
	refused []map[int]string
}

// A class is the plugins' state for pods that are alike.
type class struct {
	pod   fwk.PodInfo
	state fwk.CycleState
	// nodes are the nodes that PreFilter returned, nil if it left the choice open, and namedBy the plugins that
	// returned them. rejected is set if PreFilter rejected the pods.
	nodes    sets.Set[string]
	namedBy  string
	rejected *fwk.Status
	// spread holds the topology spread constraints, nil if there are none.
	spread *spread
}

type added struct {
	class, node int
	pod         fwk.PodInfo
	// before is the previous entry of changed for the node.
	before fwk.NodeInfo
}

// New runs the PreFilter plugins for one pod of each class. It sets each cycle state apart before any plugin sees it:
// the caller's own plugin must return Skip for it.
func New(ctx context.Context, run Framework, nodes []fwk.NodeInfo, pods []*v1.Pod) (*Others, error) {
	o := &Others{ctx: ctx, run: run, nodes: nodes, changed: make(map[int]fwk.NodeInfo)}
	for _, pod := range pods {
		info, err := kube.NewPodInfo(pod)
		if err != nil {
			return nil, fmt.Errorf("understand the affinity of pod %s: %w; correct it", klog.KObj(pod), err)
		}
		c := &class{pod: info, state: kube.NewCycleState()}
		SetApart(c.state)
		named, status, by := run.RunPreFilterPlugins(ctx, c.state, pod)
		switch {
		case status.IsRejected():
			c.rejected = status
		case !status.IsSuccess():
			return nil, fmt.Errorf("ask the PreFilter plugins about pod %s: %w", klog.KObj(pod), status.AsError())
		case !named.AllNodes():
			c.nodes, c.namedBy = named.NodeNames, strings.Join(sets.List(by), " and ")
		}
		if c.spread, err = newSpread(pod, c.state, nodes); err != nil {
			return nil, err
		}
		o.repelling = o.repelling || len(info.GetRequiredAntiAffinityTerms()) > 0
		o.classes, o.refused = append(o.classes, c), append(o.refused, make(map[int]string))
	}
	return o, nil
}

// IsTied reports whether pods on other nodes influence where the pod may be.
func IsTied(pod *v1.Pod) bool {
	return IsOrdered(pod) || pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAntiAffinity != nil &&
		len(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// IsOrdered reports whether the order in which the gang's pods are placed matters to the pod.
func IsOrdered(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.DoNotSchedule
	}) || pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAffinity != nil &&
		len(pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// Add implements devices.Others.
func (o *Others) Add(class, node int, pod *v1.Pod) search.Answer {
	info := o.at(node)
	if answer, why := o.ask(class, node, info); answer != search.Yes {
		o.Note(class, node, why)
		return answer
	}
	podInfo, err := kube.NewPodInfo(pod)
	if err != nil {
		return search.No // The pod has the same affinity as the first one of its class, which was valid.
	}
	next := info.Snapshot()
	next.AddPodInfo(podInfo)
	for i, other := range o.classes {
		if other.rejected != nil {
			continue
		}
		if status := o.run.RunPreFilterExtensionAddPod(o.ctx, other.state, other.pod.GetPod(), podInfo, next); !status.IsSuccess() {
			o.forget(o.classes[:i], podInfo, next)
			o.Note(class, node, status.Message())
			return search.Unknown
		}
	}
	o.count(podInfo.GetPod(), node, 1)
	o.added = append(o.added, added{class: class, node: node, pod: podInfo, before: o.changed[node]})
	o.changed[node] = next
	return search.Yes
}

// Remove implements devices.Others.
func (o *Others) Remove() {
	last := o.added[len(o.added)-1]
	o.added = o.added[:len(o.added)-1]
	o.forget(o.classes, last.pod, o.changed[last.node])
	o.count(last.pod.GetPod(), last.node, -1)
	if last.before == nil {
		delete(o.changed, last.node)
	} else {
		o.changed[last.node] = last.before
	}
}

// forget removes a pod from the plugins' state of some classes.
func (o *Others) forget(classes []*class, pod fwk.PodInfo, info fwk.NodeInfo) {
	for _, c := range classes {
		if c.rejected == nil {
			o.run.RunPreFilterExtensionRemovePod(o.ctx, c.state, c.pod.GetPod(), pod, info)
		}
	}
}

// count counts a pod of the gang in the topology spread constraints of all classes.
func (o *Others) count(pod *v1.Pod, node, by int) {
	for _, c := range o.classes {
		if c.spread != nil {
			c.spread.add(pod, o.nodes[node].Node(), by)
		}
	}
}

// Has reports whether a node has pods of the gang.
func (o *Others) Has(node int) bool { return o.changed[node] != nil }

// at returns a node with the gang's pods on it.
func (o *Others) at(node int) fwk.NodeInfo {
	if info := o.changed[node]; info != nil {
		return info
	}
	return o.nodes[node]
}
