package filters

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Without returns a copy of a node without pods of the gang.
func (o *Others) Without(node int) any { return o.nodes[node].Snapshot() }

// Put adds a pod to a copy of a node.
func (o *Others) Put(node any, pod *v1.Pod) {
	if info, err := kube.NewPodInfo(pod); err == nil { // Otherwise Add refuses it.
		node.(fwk.NodeInfo).AddPodInfo(info)
	}
}

// Recount lets the gang's pods on a node count as these: what their devices take of the node has changed. It returns a function that
// undoes that.
func (o *Others) Recount(node int, pods []*v1.Pod) (undo func()) {
	before := o.changed[node]
	next := o.Without(node)
	for _, pod := range pods {
		o.Put(next, pod)
	}
	o.changed[node] = next.(fwk.NodeInfo)
	return func() { o.changed[node] = before }
}
