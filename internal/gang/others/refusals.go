package others

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Rejected returns why PreFilter plugins reject pods of a class wherever they are, "" if they do not.
func (o *Others) Rejected(class int) string {
	if status := o.classes[class].rejected; status != nil {
		return status.Message()
	}
	return ""
}

// Named returns which nodes PreFilter plugins name for pods of a class, nil if they leave the choice, and what is said of
// all other nodes.
func (o *Others) Named(class int) (nodes sets.Set[string], why string) {
	c := o.classes[class]
	return c.nodes, notNamed(c)
}

// Refusals returns why pods of a class were last refused on nodes since Reset, and on how many.
func (o *Others) Refusals(class int) map[string]int {
	reasons := make(map[string]int)
	for _, why := range o.refused[class] {
		reasons[why]++
	}
	return reasons
}

// Note remembers that a class was refused on a node for another reason, since it was last asked about.
func (o *Others) Note(class, node int, why string) { o.refused[class][node] = why }

// Reset forgets what was refused.
func (o *Others) Reset() {
	for _, nodes := range o.refused {
		clear(nodes)
	}
}

// Without is a framework in which some pods are not nominated for nodes: those of a gang that is planned anew, since they
// are judged where they are planned now.
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
