package quartermaster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// cycleNodes is the part of a cycle about the nodes: which have devices for the pod, and which are the best.
type cycleNodes struct {
	// takes is the pod's use of its node besides devices.
	takes noderesources.Resources
	// steps is the budget of Filter's searches on all nodes together.
	steps *allocator.Steps
	// evaluation is the budget of time for evaluating selectors.
	evaluation *selector.Budget
	// rejected is set once Filter has rejected a node.
	rejected atomic.Bool
	// undecided is set once Filter could not decide about a node, because an expression was still being evaluated. The
	// pod is tried again after the evaluation.
	undecided atomic.Bool
	// unevaluated is set if that was an expression of the pod itself, rather than of a nominated pod.
	unevaluated atomic.Bool
	// reasons are the reasons why nodes have no devices.
	reasons nodes.Reasons

	// mutex guards the fields that Filter writes for several nodes concurrently.
	mutex sync.Mutex
	// known holds the nodes that have devices for the task, or for the task of nodes where devices back all extended
	// resources; nil if nothing is known.
	known *nodecache.Answer
	// question is the question that known answers.
	question *nodecache.Question
	// accepts reports whether a node can be the best for the pod.
	accepts func(node string) bool
	// narrowedTo are the nodes that PreFilter returned; nil if it returned none. onlyBest is set if other nodes
	// have devices too, which cost more.
	narrowedTo sets.Set[string]
	onlyBest   bool
	// scored is set if Score must know which devices a node has for the task.
	scored bool
	// found holds the first solution on nodes to be scored, by node: one result for each claim without an allocation,
	// in their order.
	found map[string][]resourceapi.AllocationResult
	// plans holds allocations like found, on nodes where the pod must get exactly these, with its group.
	plans map[string][]resourceapi.AllocationResult
	// objective and strategy determine the choice of nodes and devices.
	objective *allocator.Objective
	strategy  Strategy
	// nodeCost returns the cost of keeping a node for the pod; nil unless the strategy is Consolidate.
	nodeCost func(node *v1.Node, since int64) float64
	// values holds the cost of the devices on scored nodes, by node.
	values map[string]allocator.Value
	// ranking holds the nodes that were scored by cost, the best first.
	ranking []nodes.Node
	// unavailable holds the allocated claims that cannot be used on some node.
	unavailable map[*podClaim]bool
}

// setPlan stores the task's allocations on a node.
func (c *cycleNodes) setPlan(node string, plan []resourceapi.AllocationResult) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.plans == nil {
		c.plans = make(map[string][]resourceapi.AllocationResult)
	}
	c.plans[node] = plan
}

// chooseNodes is PreFilter's last step. It returns the nodes to look at; nil stands for all of them.
func (pl *Quartermaster) chooseNodes(ctx context.Context, c *cycle, pod *v1.Pod, all []fwk.NodeInfo) *fwk.PreFilterResult {
	if c.dryRun.Group() != nil {
		return nil
	}
	if assignment := c.groupAssignment(); assignment != nil {
		claims := c.open()
		if assignment.Made != nil {
			claims = append(claims, assignment.Made)
		}
		if plan := assignment.PlanOf(claims); plan != nil {
			c.setPlan(assignment.Node, plan)
		}
		return &fwk.PreFilterResult{NodeNames: sets.New(assignment.Node)}
	}
	pl.know(ctx, c, pod)
	return pl.narrow(ctx, c, pod, len(all))
}

// know sets the objective for a pod's devices, and asks the node cache about the task.
func (pl *Quartermaster) know(ctx context.Context, c *cycle, pod *v1.Pod) {
	task, claims := c.task, c.open()
	if c.extended != nil {
		task, claims = c.extended.Full().Task, c.extended.Full().Claims
	}
	if task == nil {
		return
	}
	c.strategy = pl.objectives.StrategyFor(claims)
	c.objective = pl.objectives.Of(c.strategy, pl.state.demand.Demand(pl.state.Free.Beside()))
	c.nodeCost = pl.nodeCost(c.strategy)
	c.accepts = pl.accepts(ctx, c, pod)
	q := &nodecache.Question{Task: task, Pod: c.takes, By: pl.objectives.Name(c.strategy), Version: c.costVersion(), Accepts: c.accepts, All: c.dryRun.PlansGang()}
	q.Consolidates = c.nodeCost != nil
	if c.scored {
		q.By = "" // Nodes differ in more than the cost of devices, see valueNodes.
	} else {
		q.Rate = func(ctx context.Context, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
			return c.rate(ctx, task, site, room)
		}
	}
	c.question = q
	known := pl.state.NodeCache.Find(pl.filterContext(ctx, c), q)
	if !c.place.SomeDevices() { // The answers assume that nodes have all their devices.
		c.known = known
	}
}

// narrow returns the nodes to look at; nil stands for all of them. They are the nodes where the devices cost the least,
// if that is known; otherwise all nodes with devices, if these are few. A group may be limited to some nodes: for its
// pods, narrow returns nil.
func (pl *Quartermaster) narrow(ctx context.Context, c *cycle, pod *v1.Pod, total int) *fwk.PreFilterResult {
	if c.place.SomeNodes || c.pod.LooksEverywhere() || !pl.chooser.IsFirst() || c.legacy != nil || nodes.OthersName(pod) {
		return nil
	}
	names := nodes.OnlyNode(eligibility.NodeSelectors(c.claims)...)
	if names == nil && c.known != nil && c.accepts != nil {
		known := c.known
		if names = known.Best(enoughBest, mostBest, c.accepts); known.IsShared() {
			known, names = pl.readyNodes(ctx, c)
		}
		if c.onlyBest = len(names) > 0; c.onlyBest && !pl.keepsOnAll(c, names) {
			c.known = known
		}
	}
	if len(names) == 0 {
		names = pl.mayHaveDevices(c, total/2)
	}
	if len(names) == 0 || pl.keepsOnAll(c, names) {
		return nil // All nodes: then the reasons cover all of them.
	}
	c.narrowedTo = names
	return &fwk.PreFilterResult{NodeNames: names}
}

// keepsOn reports whether devices that a node reaches are kept for other pods. The node cache's answers ignore that.
func (pl *Quartermaster) keepsOn(c *cycle, node *v1.Node) bool {
	return c.kept != nil && slices.ContainsFunc(pl.state.Inventory.OnNode(node), func(pool *inventory.NodePool) bool { return c.kept(pool.ID) })
}

// keepsOnAll reports whether keepsOn holds for all of the nodes: the pod is unlikely to get their devices.
func (pl *Quartermaster) keepsOnAll(c *cycle, names sets.Set[string]) bool {
	for name := range names {
		if node, err := pl.nodes.Get(name); err == nil && !pl.keepsOn(c, node) {
			return false
		}
	}
	return c.kept != nil
}

// readyNodes is for a pod that could also use devices which several nodes reach. It returns the nodes with other, ready
// devices for the pod, and the node cache's answer about them. Such nodes are better if all devices that several nodes
// reach must be attached first, like those of a fabric.
func (pl *Quartermaster) readyNodes(ctx context.Context, c *cycle) (*nodecache.Answer, sets.Set[string]) {
	if c.dryRun.PlansGang() || !pl.state.NodeCache.SharedGetReady(ctx, c.question.Task) {
		return nil, nil
	}
	own := *c.question
	own.Own = true
	known := pl.state.NodeCache.Find(pl.filterContext(ctx, c), &own)
	if known == nil {
		return nil, nil
	}
	return known, known.BestReady(enoughBest, mostBest, c.accepts)
}

// The number of best nodes to return: enough to leave other plugins a choice, and more if the next ones are equally
// good.
const (
	enoughBest = 32
	mostBest   = 64
)

// accepts returns a function that reports whether a node can be among the best: the node cache does not know which devices have failed
// for the pod. It returns nil if the plans of nodes differ in more than the cost of devices, and if the pod has conditions that only
// other plugins can judge.
func (pl *Quartermaster) accepts(ctx context.Context, c *cycle, pod *v1.Pod) func(node string) bool {
	if c.scored || nodes.DependsOnPods(pod) ||
		c.extended != nil && (c.extended.Full().Unfit != nil || pl.offering(c).Len() > 0) {
		return nil
	}
	return nodes.Accepts(klog.FromContext(ctx), pod, pl.nodes, func(node *v1.Node) bool {
		return eligibility.Admit(node, c.claims) && !pl.keepsOn(c, node) && (c.failed == nil || !c.hasFailedIn(pl.state.Inventory.OnNode(node)))
	})
}

// mayHaveDevices returns the nodes that have devices or might have, and for extended resources also those where a
// device plugin may have them. If there are more than most, it returns nil.
func (pl *Quartermaster) mayHaveDevices(c *cycle, most int) sets.Set[string] {
	if c.known == nil || c.extended != nil && c.extended.Full().Unfit != nil {
		return nil
	}
	names, few := c.known.Names(most)
	if c.extended == nil {
		return names
	}
	if !few {
		return nil
	}
	if names = names.Union(pl.offering(c)); len(names) > most {
		return nil
	}
	return names
}

// offering returns the nodes where device plugins offer any of the resources that devices would back for the pod
// elsewhere.
func (pl *Quartermaster) offering(c *cycle) sets.Set[string] {
	if c.extended == nil {
		return nil
	}
	return pl.state.offers.On(c.extended.Resources())
}
