package filters

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Rejected returns why PreFilter plugins reject pods of a class on all nodes, "" if they do not.
func (o *Others) Rejected(class int) string {
	if status := o.classes[class].rejected; status != nil {
		return status.Message()
	}
	return ""
}

// Named returns the nodes that PreFilter plugins name for pods of a class, nil if they leave the choice open. why is
// the reason for all other nodes.
func (o *Others) Named(class int) (nodes sets.Set[string], why string) {
	c := o.classes[class]
	return c.nodes, notNamed(c)
}

// Refusals returns the reasons why nodes have refused pods of a class since Reset, with the number
// of nodes. Only the last reason of each node counts.
func (o *Others) Refusals(class int) map[string]int {
	reasons := make(map[string]int)
	for _, why := range o.refused[class] {
		reasons[why]++
	}
	return reasons
}

// Note replaces the reason why a node refuses a class.
func (o *Others) Note(class, node int, why string) { o.refused[class][node] = why }

// Reset forgets all reasons.
func (o *Others) Reset() {
	for _, nodes := range o.refused {
		clear(nodes)
	}
}

// Without returns a framework that hides the nominations of some pods: those of the gang being planned, because the
// plan decides where they go.
func Without(run Framework, pods []*v1.Pod) Framework {
	w := &without{Framework: run, pods: sets.New[types.UID]()}
	for _, pod := range pods {
		w.pods.Insert(pod.UID)
	}
	return w
}

type without struct {
	Framework
	pods sets.Set[types.UID]
}

func (w *without) NominatedPodsForNode(name string) (left []fwk.PodInfo) {
	for _, nominated := range w.Framework.NominatedPodsForNode(name) {
		if !w.pods.Has(nominated.GetPod().UID) {
			left = append(left, nominated)
		}
	}
	return left
}
