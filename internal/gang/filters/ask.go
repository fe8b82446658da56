package filters

import (
	"k8s.io/apimachinery/pkg/labels"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// ask reports whether a node takes a pod of a class, and why not.
func (o *Others) ask(class, node int, info fwk.NodeInfo) (search.Answer, string) {
	c := o.classes[class]
	if c.rejected != nil {
		return search.No, c.rejected.Message()
	}
	if c.nodes != nil && !c.nodes.Has(info.Node().Name) {
		return search.No, notNamed(c)
	}
	if o.repelling && c.state.GetSkipFilterPlugins().Has(kube.InterPodAffinity) {
		if answer, why := o.repel(c, node); answer != search.Yes {
			return answer, why
		}
	}
	answer, why := o.filter(c, info)
	if answer == search.Yes && c.spread != nil && !c.spread.allows(info.Node()) {
		return search.No, notSpread
	}
	return answer, why
}

func notNamed(c *class) string { return "node(s) not among those that " + c.namedBy + " named" }

// filter runs the Filter plugins for a node twice, as kube-scheduler does: with the pods of the same or a higher
// priority that are nominated for the node, and without them.
func (o *Others) filter(c *class, info fwk.NodeInfo) (search.Answer, string) {
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
			return search.Unknown, status.Message()
		}
	}
	if with != nil {
		if answer, why := answerOf(o.run.RunFilterPlugins(o.ctx, state, pod, with)); answer != search.Yes {
			return answer, why
		}
	}
	return answerOf(o.run.RunFilterPlugins(o.ctx, c.state, pod, info))
}

func answerOf(status *fwk.Status) (search.Answer, string) {
	switch {
	case status.IsSuccess():
		return search.Yes, ""
	case status.IsRejected():
		return search.No, status.Message()
	}
	return search.Unknown, status.Message()
}

const repelled = "node(s) didn't satisfy the anti-affinity rules of pods of the group"

// repel reports whether no anti-affinity of the gang's placed pods keeps pods of the class away from a node. It is for
// classes that InterPodAffinity skips, because no pod had anti-affinity when its PreFilter ran.
func (o *Others) repel(c *class, node int) (search.Answer, string) {
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
				return search.No, repelled
			case selects: // The namespace's labels are not known here.
				return search.Unknown, repelled
			}
		}
	}
	return search.Yes, ""
}

// Room returns how many pods of a class a node takes without other pods of the gang, up to most. Others must hold no
// pods. Room ignores topology spread constraints. A correct guess saves time.
func (o *Others) Room(class, node, guess, most int) int {
	c := o.classes[class]
	if answer, _ := o.ask(class, node, o.nodes[node]); answer != search.Yes {
		return 0
	}
	return 1 + search.Most(guess-1, most-1, func(before int) bool {
		info := o.nodes[node].Snapshot()
		told := 0
		for told < before {
			info.AddPodInfo(c.pod)
			if !o.run.RunPreFilterExtensionAddPod(o.ctx, c.state, c.pod.GetPod(), c.pod, info).IsSuccess() {
				break
			}
			told++
		}
		answer, _ := o.ask(class, node, info)
		for range told {
			o.forget(o.classes[class:class+1], c.pod, info)
		}
		return told == before && answer == search.Yes
	})
}
