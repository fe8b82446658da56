package simulation

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// places is the theme of histories in which pods can use only some nodes, and the labels of nodes change.
const places = "places"

// rack is the label of nodes that changes, and racks are its values.
const rack = "example.com/rack"

var racks = []string{"a", "b"}

func setupPlaces(g *generator) {
	for range g.history.nodes {
		changePlace(g)
	}
}

// changePlace moves a node to another rack, or to none.
func changePlace(g *generator) {
	node, value := g.anyNode(), pick(g, "a", "a", "b", "b", "")
	g.add(g.soon(), func(w *World) { w.label(node, value) }, "node %s is in rack %q", node, value)
}

func (w *World) label(name, value string) {
	node, err := w.client.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	node.Labels[rack] = value
	if value == "" {
		delete(node.Labels, rack)
	}
	ignore(w.client.CoreV1().Nodes().Update(w.ctx, node, metav1.UpdateOptions{}))
}

// places restricts the pod to some nodes, keeps it away from others, or lets it use cordoned nodes as well.
func (g *generator) places(p *podPlan) {
	node, value := g.anyNode(), pick(g, racks...)
	switch g.random.IntN(5) {
	case 0:
		p.with(func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: node} }, "on %s", node)
	case 1:
		p.with(func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{rack: value} }, "in rack %s", value)
	case 2:
		p.with(func(pod *v1.Pod) {
			pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: rack, Operator: v1.NodeSelectorOpNotIn, Values: []string{value}}}}},
			}}}
		}, "not in rack %s", value)
	case 3:
		p.with(func(pod *v1.Pod) {
			pod.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists}}
		}, "also on nodes that are cordoned")
	case 4:
		p.with(func(pod *v1.Pod) {
			pod.Labels = map[string]string{"example.com/apart": value}
			pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}, TopologyKey: v1.LabelHostname},
			}}}
		}, "on no node with another one of %s", value)
	}
}
