package demand

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// A Learner learns from pods. It is safe for concurrent use.
type Observer struct {
	Demand    *Learner
	Inventory *inventory.Store
	Nodes     corelisters.NodeLister
	Pods      corelisters.PodLister
	Claims    *podclaims.Claims
	Solver    *allocator.Solver
}

// Chose records the requests of a pod for which the given node was chosen.
func (l *Observer) Chose(ctx context.Context, pod *v1.Pod, task *allocator.Task, node string) {
	l.Demand.SawAgain(l.waits)
	l.Demand.Saw(pod, task.Asks(ctx, l.poolsOf(node)))
}

// waits reports whether a pod still exists and has no node.
func (l *Observer) waits(pod *v1.Pod) bool {
	now, err := l.Pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil
}

// Rejected records the requests of a pod that fits no node: they are still wanted, and count again as long as the pod waits. But if no node has that size, the
// pod does not count: such a pod cannot come either, and a single pod that requests a million cores would outweigh what
// all others take besides devices. nodes are the nodes that were tried, nil for all.
func (l *Observer) Rejected(ctx context.Context, pod *v1.Pod, takes noderesources.Resources, task *allocator.Task, nodes sets.Set[string]) {
	l.Demand.SawAgain(l.waits)
	if l.isNodeSized(takes) {
		asks := task.Asks(ctx, l.poolsLike(ctx, nodes, task))
		l.Demand.Saw(pod, asks)
		l.Demand.Waits(pod, asks)
	}
}

// isNodeSized reports whether any node is large enough for the pod without other pods.
func (l *Observer) isNodeSized(takes noderesources.Resources) bool {
	nodes, err := l.Nodes.List(labels.Everything())
	return err == nil && slices.ContainsFunc(nodes, func(node *v1.Node) bool {
		most := node.Status.Allocatable
		return noderesources.Resources{MilliCPU: quantity.MilliValue(*most.Cpu()), Memory: quantity.Value(*most.Memory()), Pods: 1}.Holds(takes)
	})
}

// mostAlike limits the nodes that poolsLike looks at.
const mostAlike = 512

// poolsLike returns the pools of the first node by name that could satisfy the most requests of a task if all its
// devices were free. Only matching devices tell what the requested amounts mean.
func (l *Observer) poolsLike(ctx context.Context, among sets.Set[string], task *allocator.Task) (best []*inventory.NodePool) {
	nodes := sets.List(among)
	if len(nodes) == 0 {
		nodes = slices.Sorted(l.Inventory.LocalNodes())
	}
	most := -1
	for _, name := range nodes[:min(mostAlike, len(nodes))] {
		pools := l.poolsOf(name)
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

// poolsOf returns the pools of a node, nil if the node is unknown or has none.
func (l *Observer) poolsOf(name string) []*inventory.NodePool {
	node, err := l.Nodes.Get(name)
	if err != nil {
		return nil
	}
	return l.Inventory.OnNode(node)
}

// seedTime limits how long the first attempt may learn from existing pods: no pod is scheduled meanwhile, and users
// choose the expressions of their claims. Pods beyond that are left out.
const seedTime = 2 * time.Second

// Seed records the pods that are on nodes when the scheduler starts.
func (l *Observer) Seed(ctx context.Context) {
	l.Demand.Seed(func(found func(*v1.Pod, []placement.Ask)) {
		pods, err := l.Pods.List(labels.Everything())
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot learn from existing pods which devices are likely to be requested")
			return
		}
		ctx, end := selector.WithBudget(ctx, selector.NewBudget(seedTime, 0)), time.Now().Add(seedTime)
		for _, pod := range pods {
			claims := l.Claims.OfBound(pod)
			if len(claims) == 0 {
				continue
			}
			if time.Now().After(end) {
				klog.FromContext(ctx).Info("Learning from existing pods which devices are likely to be requested takes long; some pods are left out")
				return
			}
			found(pod, l.Solver.Prepare(claims).Asks(ctx, l.poolsOf(pod.Spec.NodeName)))
		}
	})
}
