package others

import (
	"k8s.io/apimachinery/pkg/labels"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/quartermaster-dra/quartermaster/internal/gang"
)

// ask reports whether a node takes a pod of a class, and why not.
func (o *Others) ask(class, node int, info fwk.NodeInfo) (gang.Answer, string) {
	c := o.classes[class]
	if c.rejected != nil {
		return gang.No, c.rejected.Message()
	}
	if c.nodes != nil && !c.nodes.Has(info.Node().Name) {
		return gang.No, notNamed(c)
	}
	if o.repelling && c.state.GetSkipFilterPlugins().Has(names.InterPodAffinity) {
		if answer, why := o.repel(c, node); answer != gang.Yes {
			return answer, why
		}
	}
	answer, why := o.filter(c, info)
	if answer == gang.Yes && c.spread != nil && !c.spread.allows(info.Node()) {
		return gang.No, notSpread
	}
	return answer, why
}

func notNamed(c *class) string { return "node(s) not among those that " + c.namedBy + " named" }

// filter runs the Filter plugins for a node twice, as kube-scheduler does: with the pods of the same or a higher
// priority that are nominated for the node, and without them.
func (o *Others) filter(c *class, info fwk.NodeInfo) (gang.Answer, string) {
	pod := c.pod.GetPod()
	with, state := fwk.NodeInfo(nil), fwk.CycleState(nil)
	for _, nominated := range o.run.NominatedPodsForNode(info.Node().Name) {
		if nominated.GetPod().UID == pod.UID || corev1.PodPriority(nominated.GetPod()) < corev1.PodPriority(pod) {
			continue
		}
		if with == nil {
			with, state = info.Snapshot(), c.state.Clone()
		}
		with.AddPodInfo(nominated)
		if status := o.run.RunPreFilterExtensionAddPod(o.ctx, state, pod, nominated, with); !status.IsSuccess() {
			return gang.Unknown, status.Message()
		}
	}
	if with != nil {
		if answer, why := answerOf(o.run.RunFilterPlugins(o.ctx, state, pod, with)); answer != gang.Yes {
			return answer, why
		}
	}
	return answerOf(o.run.RunFilterPlugins(o.ctx, c.state, pod, info))
}

func answerOf(status *fwk.Status) (gang.Answer, string) {
	switch {
	case status.IsSuccess():
		return gang.Yes, ""
	case status.IsRejected():
		return gang.No, status.Message()
	}
	return gang.Unknown, status.Message()
}

const repelled = "node(s) didn't satisfy the anti-affinity rules of pods of the group"

// repel reports whether no anti-affinity of the gang's placed pods keeps pods of the class away from a node. It is for
// classes that InterPodAffinity skips, because no pod had anti-affinity when its PreFilter ran.
func (o *Others) repel(c *class, node int) (gang.Answer, string) {
	pod := c.pod.GetPod()
	for _, placed := range o.added {
		terms := placed.pod.GetRequiredAntiAffinityTerms()
		for i := range terms {
			term := &terms[i]
			here, found := o.nodes[node].Node().Labels[term.TopologyKey]
			there, known := o.nodes[placed.node].Node().Labels[term.TopologyKey]
			if !found || !known || here != there || !term.Selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			switch _, selects := term.NamespaceSelector.Requirements(); {
			case term.Namespaces.Has(pod.Namespace) || term.NamespaceSelector.Empty():
				return gang.No, repelled
			case selects: // The namespace's labels are not known here.
				return gang.Unknown, repelled
			}
		}
	}
	return gang.Yes, ""
}
