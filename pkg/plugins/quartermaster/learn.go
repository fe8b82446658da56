package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
)

// learn takes what the pod asks for into account, once for each pod. The node is the one that was chosen,
// or any other with devices if none was.
func (pl *Quartermaster) learn(ctx context.Context, c *cycle, pod *v1.Pod, task *allocator.Task, node string) {
	if task == nil || !c.pod.Learn() {
		return
	}
	pools := pl.poolsOf(node)
	if pools == nil {
		for name := range pl.state.Inventory.LocalNodes() {
			if pools = pl.poolsOf(name); pools != nil {
				break
			}
		}
	}
	pl.state.demand.Saw(pod, task.Asks(pl.searchContext(ctx, c), pools))
}

// learnRejected is learn for a pod that fits no node. What it asks for is wanted all the same.
func (pl *Quartermaster) learnRejected(ctx context.Context, c *cycle, pod *v1.Pod) {
	task := c.task
	if c.extended != nil {
		task = c.extended.Full().Task
	}
	node := ""
	for name := range c.narrowedTo {
		node = name
		break
	}
	pl.learn(ctx, c, pod, task, node)
}

// poolsOf returns what a node sees, nil if it is not known or has nothing.
func (pl *Quartermaster) poolsOf(name string) []*inventory.NodePool {
	node, err := pl.nodes.Get(name)
	if err != nil {
		return nil
	}
	return pl.state.Inventory.OnNode(node)
}

// seedDemand has the pods count that are on nodes when the scheduler starts.
func (pl *Quartermaster) seedDemand(ctx context.Context) {
	pl.state.demand.Seed(func(found func(*v1.Pod, []placement.Ask)) {
		pods, err := pl.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot learn from pods that exist what is likely to be asked for")
			return
		}
		for _, pod := range pods {
			if pod.Spec.NodeName == "" || len(pod.Spec.ResourceClaims) == 0 {
				continue
			}
			claims, err := pl.claims.Of(pod)
			if err != nil || len(claims) == 0 {
				continue
			}
			found(pod, pl.solver.Prepare(claims).Asks(ctx, pl.poolsOf(pod.Spec.NodeName)))
		}
	})
}
