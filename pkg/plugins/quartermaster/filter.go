package quartermaster

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// attemptBudget limits the time that an attempt waits for the evaluation of expressions. Users who may create claims
// choose the expressions; a single one can take minutes on the devices of a cluster, and no other pod is scheduled
// meanwhile.
const attemptBudget = 40 * time.Millisecond

// Filter decides whether a node can use the pod's allocated claims, and has devices for the others.
func (pl *Quartermaster) Filter(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(cs)
	if err != nil {
		return failed(err)
	}
	if c == nil {
		return nil
	}
	d, err := preemption.DryRunIn(cs)
	if err != nil {
		return failed(err)
	}
	status := pl.filter(ctx, &look{cs: cs, cycle: c, dryRun: d, info: nodeInfo})
	if d == nil && !status.IsSuccess() && c.rejected.CompareAndSwap(false, true) {
		pl.waker.Reject(c.pod)
	}
	return status
}

// A look holds the arguments of Filter on one node.
type look struct {
	cs fwk.CycleState
	*cycle
	// dryRun is nil if the look is not part of a dry run.
	dryRun *preemption.DryRun
	info   fwk.NodeInfo
	// task is the node's task, nil if there is nothing to allocate, and known what the node cache knows about it.
	task  *allocator.Task
	known *nodecache.Answer
}

func (l *look) node() *v1.Node { return l.info.Node() }

func (pl *Quartermaster) filter(ctx context.Context, l *look) *fwk.Status {
	if l.extended != nil {
		return pl.filterExtended(ctx, l)
	}
	l.task, l.known = l.cycle.task, l.cycle.known
	return pl.filterTask(ctx, l)
}

// filterTask implements filter with the node's task.
func (pl *Quartermaster) filterTask(ctx context.Context, l *look) *fwk.Status {
	c, node := l.cycle, l.node()
	if status := c.filterAllocated(node); status != nil {
		return status
	}
	if err := c.legacy.Check(node); err != nil {
		return unschedulable("%v", err)
	}
	if pl.mayTakeOfNode(c, node) {
		return pl.filterOfNode(ctx, l)
	}
	if l.task == nil {
		return nil
	}
	if pl.legacy.Resolves() {
		if err := eligibility.Unsuitable(node, c.claims); err != nil {
			return unschedulable("%v", err)
		}
	}
	return pl.filterUnallocated(ctx, l)
}

// filterAllocated checks that all existing allocations can be used on the node. It remembers the claims that cannot.
func (c *cycle) filterAllocated(node *v1.Node) *fwk.Status {
	unavailable, reason := eligibility.NotOn(node, c.claims)
	if reason == nil {
		return nil
	}
	c.pod.Causes.Note(reasons.ClaimElsewhere)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, claim := range unavailable {
		if c.unavailable == nil {
			c.unavailable = make(map[*podClaim]bool)
		}
		c.unavailable[claim] = true
	}
	return unschedulable("%v", reason)
}

// filterUnallocated checks whether a node has devices. It determines which ones only for Score, if some nodes would be
// better than others; otherwise Reserve does.
func (pl *Quartermaster) filterUnallocated(ctx context.Context, l *look) *fwk.Status {
	c, node := l.cycle, l.node()
	if _, planned := c.plans[node.Name]; planned && l.dryRun == nil {
		return nil // It fit with the pod's group a moment ago.
	}
	if !c.scored && l.known != nil && l.known.Has(node.Name) && !pl.keepsOn(c, node) {
		return nil // Reserve searches again, with the current devices.
	}
	search := l.task.Check
	if c.scored {
		search = l.task.Solve // Finds the alternatives; Reserve decides on the devices later.
	}
	plan, status := pl.searchOn(ctx, l, pl.nodeView(c, node), search)
	if c.scored && status == nil && l.dryRun == nil {
		c.noteFound(node, plan)
	}
	return status
}

// noteFound remembers a solution for Score.
func (c *cycleNodes) noteFound(node *v1.Node, plan []resourceapi.AllocationResult) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.found[node.Name] = plan
}

// searchFunc is Check or Solve of a task.
type searchFunc func(context.Context, allocator.NodeView) (*allocator.Outcome, error)

// searchOn searches for devices on the site of a node. It returns those that the search found; the status is nil if there
// are any.
func (pl *Quartermaster) searchOn(ctx context.Context, l *look, site allocator.NodeView, search searchFunc) ([]resourceapi.AllocationResult, *fwk.Status) {
	c, task, node := l.cycle, l.task, l.node()
	if l.dryRun != nil {
		return pl.searchInDryRun(ctx, l, site, search)
	}
	if pl.mayPreempt(c.pod.Latest()) {
		if status := pl.reclaimable(c).Known(site); status != nil {
			c.pod.Causes.Note(reasons.LowerPriority)
			return nil, status
		}
	}
	outcome, err := pl.searchPlanned(ctx, c, site, search)
	switch {
	case isFilterTimeout(ctx, err):
		return nil, pl.timedOut(ctx, c, node)
	case err != nil:
		c.pod.Causes.Note(reasons.OfSearch(err))
		pl.awaitVerdict(c, err)
		if ctx.Err() == nil && c.pod.HelpedByAnySlice() {
			pl.waker.WakeAfterPause(c.pod)
		}
		reason := c.reasons.OfError(ctx, node, err)
		if reasons.OfSearch(err) == reasons.Undecided {
			return nil, unschedulable("%s", reason)
		}
		// Other devices, whose selectors were evaluated, may be held by pods of lower priority.
		return nil, pl.rejection(ctx, c, task, site, reason, false)
	case !outcome.Fits():
		reason, full := c.reasons.Of(outcome)
		c.pod.Causes.NoteBlame(outcome.Blame())
		if logger := klog.FromContext(ctx).V(5); logger.Enabled() {
			logger.Info("No devices for a pod on a node", "node", klog.KObj(node), "explanation", outcome.Explain().String())
		}
		outcome.Release()
		if held := pl.heldFor(ctx, c, task, site); held != "" {
			reason = held
		}
		return nil, pl.rejection(ctx, c, task, site, reason, full)
	}
	return outcome.Results, nil
}

// awaitVerdict makes the pod be tried again when an expression is evaluated, if that is the error of a search.
func (pl *Quartermaster) awaitVerdict(c *cycle, err error) {
	if errors.Is(err, selector.ErrPending) {
		if nominee := (*preemption.Undecided)(nil); !errors.As(err, &nominee) {
			c.unevaluated.Store(true)
		}
		if c.undecided.CompareAndSwap(false, true) && len(c.unplanned) > 0 {
			pl.waker.WakeIn(c.pod, preemption.UndecidedFor) // Nobody waits longer for another's expression.
		}
	}
	pl.waker.AwaitVerdict(c.pod, err)
}

// searchPlanned searches, unless the site's devices are to be kept for a nominated pod and it is not known yet which.
func (pl *Quartermaster) searchPlanned(ctx context.Context, c *cycle, site allocator.NodeView, search searchFunc) (*allocator.Outcome, error) {
	if err := c.checkPlanned(site.Pools); err != nil {
		return nil, err
	}
	return search(pl.filterContext(ctx, c), site)
}

// nodeView returns the allocator's site of a node.
func (pl *Quartermaster) nodeView(c *cycle, node *v1.Node) allocator.NodeView {
	return allocator.NodeView{Node: node, Pools: c.place.Pools(pl.state.Inventory.OnNode(node)), Usage: c.usage, Failed: c.failedOn()}
}

// ownView is like nodeView, but leaves out devices that several nodes reach if the pod cannot use them: they do not
// count as the node's own remaining devices.
func (pl *Quartermaster) ownView(c *cycle, node *v1.Node) (site allocator.NodeView) {
	if site = pl.nodeView(c, node); !c.known.IsShared() {
		site.Pools = pl.state.Inventory.OwnPools(node)
	}
	return site
}

// valuedView is like ownView, with an objective for the best solution.
func (pl *Quartermaster) valuedView(c *cycle, node *v1.Node) allocator.NodeView {
	if room, known := pl.state.Free.At(node.Name); known {
		return c.valued(pl.ownView(c, node), room)
	}
	return pl.nodeView(c, node)
}
