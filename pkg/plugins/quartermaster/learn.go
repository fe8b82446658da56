package quartermaster

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// learn takes what the pod asks for into account, once for each pod. The node is the one that was chosen.
func (pl *Quartermaster) learn(ctx context.Context, c *cycle, pod *v1.Pod, task *allocator.Task, node string) {
	if task != nil && c.pod.Learn() {
		pl.state.demand.Saw(pod, task.Asks(pl.searchContext(ctx, c), pl.poolsOf(node)))
	}
}

// learnRejected is learn for a pod that fits no node. What it asks for is wanted all the same, unless there is no
// node of that size: such a pod will not come either, and a single one that asks for a million cores would outweigh
// what all others take besides devices.
func (pl *Quartermaster) learnRejected(ctx context.Context, c *cycle, pod *v1.Pod) {
	task := c.task
	if c.extended != nil {
		task = c.extended.Full().Task
	}
	if task == nil || !c.pod.Learn() || !pl.isNodeSized(c.takes) {
		return
	}
	ctx = pl.searchContext(ctx, c)
	pl.state.demand.Saw(pod, task.Asks(ctx, pl.poolsLike(ctx, c, task)))
}

// isNodeSized reports whether a pod could take that much of a node if nobody else was there.
func (pl *Quartermaster) isNodeSized(takes noderoom.Room) bool {
	nodes, err := pl.nodes.List(labels.Everything())
	return err == nil && slices.ContainsFunc(nodes, func(node *v1.Node) bool {
		most := node.Status.Allocatable
		return noderoom.Room{MilliCPU: most.Cpu().MilliValue(), Memory: most.Memory().Value(), Pods: 1}.Holds(takes)
	})
}

// mostAlike is how many nodes are looked at to find one that has what a pod asks for.
const mostAlike = 512

// poolsLike returns the pools of the node, the first by name, that could satisfy most requests of a task if nobody
// held its devices: what the amounts that the pod asks for mean, only matching devices can tell.
func (pl *Quartermaster) poolsLike(ctx context.Context, c *cycle, task *allocator.Task) (best []*inventory.NodePool) {
	nodes := sets.List(c.narrowedTo)
	if len(nodes) == 0 {
		nodes = slices.Sorted(pl.state.Inventory.LocalNodes())
	}
	most := -1
	for _, name := range nodes[:min(mostAlike, len(nodes))] {
		pools := pl.poolsOf(name)
		matched, all := task.Matched(ctx, pools)
		if matched > most {
			best, most = pools, matched
		}
		if matched == all {
			break
		}
	}
	return best
}

// poolsOf returns what a node sees, nil if it is not known or has nothing.
func (pl *Quartermaster) poolsOf(name string) []*inventory.NodePool {
	node, err := pl.nodes.Get(name)
	if err != nil {
		return nil
	}
	return pl.state.Inventory.OnNode(node)
}

// seedTime is how long the first attempt may take to learn from the pods that are there: nobody is scheduled
// meanwhile, and users choose the expressions of their claims. Pods that it does not suffice for are left out.
const seedTime = 2 * time.Second

// seedDemand has the pods count that are on nodes when the scheduler starts.
func (pl *Quartermaster) seedDemand(ctx context.Context) {
	pl.state.demand.Seed(func(found func(*v1.Pod, []placement.Ask)) {
		pods, err := pl.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot learn from pods that exist what is likely to be asked for")
			return
		}
		ctx, end := selector.WithBudget(ctx, selector.NewBudget(seedTime, 0)), time.Now().Add(seedTime)
		for _, pod := range pods {
			claims := pl.claims.OfBound(pod)
			if len(claims) == 0 {
				continue
			}
			if time.Now().After(end) {
				klog.FromContext(ctx).Info("Learning from pods that exist what is likely to be asked for takes long; some are left out")
				return
			}
			found(pod, pl.solver.Prepare(claims).Asks(ctx, pl.poolsOf(pod.Spec.NodeName)))
		}
	})
}
