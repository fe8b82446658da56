package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/nodeallocatable"
	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// cycleOfNode is the part of a cycle about devices that stand for, or need, resources of the node such as CPUs (KEP-5517).
type cycleOfNode struct {
	// takesAlready is set if allocated claims of the pod have such devices.
	takesAlready bool
	// account is opened when the first node may have such devices; unusable is the reason why the pod can be on no node. given is
	// the number of a plan's claims before that for extended resources.
	account     *nodeallocatable.Account
	given       int
	unusable    *fwk.Status
	accountOnce sync.Once
	// state is the attempt's own CycleState, from which kube-scheduler assumes the pod. With nominated pods on a node, Filter gets a copy,
	// and may get no other.
	state fwk.CycleState
	// charges holds what the pod takes of nodes, by node. cycleNodes.mutex guards it during Filter.
	charges map[string]*charge
	// usual has the nodes that have enough only for the first devices, not for the best. cycleNodes.mutex guards it.
	usual map[string]bool
	// recorded is set once the pod's status may say what it takes.
	recorded bool
}

// A charge holds the resources that a pod takes of a node with a plan.
type charge struct {
	// plan has one allocation for each unallocated claim. Reserve takes it as it is, because kube-scheduler has assumed the pod
	// with this status by then.
	plan   []resourceapi.AllocationResult
	status nodeallocatable.Status
}

// refusesOfNode reports whether such devices are refused: on older servers nothing accounts for them.
func (pl *Quartermaster) refusesOfNode() bool {
	return pl.features.EnableDRANodeAllocatableResources && pl.accountant == nil
}

// solverFor returns the solver for an attempt. For a pod that needs devices only for extended resources it knows no devices that take
// resources of their node, so that it finds others; see refuseExtended.
func (pl *Quartermaster) solverFor(c *cycle) *allocator.Solver {
	if c.extended != nil && !slices.ContainsFunc(c.unallocated(), func(claim *podClaim) bool { return claim.Origin == commit.Given }) {
		return pl.plainSolver
	}
	return pl.solver
}

// published implements nodeallocatable.Devices.
func (pl *Quartermaster) published(result *resourceapi.DeviceRequestAllocationResult) *resourceapi.Device {
	if pool := pl.state.Pool(ledger.PoolOf(result)); pool != nil {
		if device := pool.Device(result.Device); device != nil {
			return device.Device
		}
	}
	return nil
}

// decided returns the allocations that do not depend on the node.
func (c *cycleClaims) decided() (decided []*resourceapi.AllocationResult) {
	for _, podClaim := range c.claims {
		if allocation := podClaim.Decided(); allocation != nil {
			decided = append(decided, allocation)
		}
	}
	return decided
}

// consumerLimits implements write.Limits.
type consumerLimits struct{ *Quartermaster }

// ConsumerLimit returns 1 for an allocated claim with a device that stands for resources of its node, else the server's limit. Only here,
// where claims are written, is it known that another pod was reserved since the attempt began.
func (l consumerLimits) ConsumerLimit(claim *resourceapi.ResourceClaim) int {
	if l.accountant != nil && claim.Status.Allocation != nil &&
		(l.accountant.IsForOnePod(claim.Status.Allocation) || l.unpublishedIn(claim.Status.Allocation) != nil && l.recordedByUsers(claim)) {
		return 1
	}
	return l.claims.Server.ConsumerLimit(claim)
}

// mayTakeOfNode reports whether the pod's devices may take resources of the node. It is false without such devices in the cluster.
func (pl *Quartermaster) mayTakeOfNode(c *cycle, node *v1.Node) bool {
	return pl.accountant != nil && (c.takesAlready || slices.ContainsFunc(pl.state.Inventory.OnNode(node), (*inventory.NodePool).MayTakeOfNode))
}

// filterOfNode implements filterTask for a node with such devices. Whether the node has enough resources for them depends on the plan. If
// it does not for the best devices, it may for those that the in-tree plugin would choose.
func (pl *Quartermaster) filterOfNode(ctx context.Context, l *look) *fwk.Status {
	node := l.node()
	if plan, planned := l.plans[node.Name]; planned && l.dryRun == nil || l.task == nil {
		return pl.charge(ctx, l, plan)
	}
	best := pl.valuedView(l.cycle, node)
	if l.dryRun == nil { // With nominated pods on the node, Filter is called once with them, and once without.
		best = pl.affordableView(l.cycle, node)
	}
	plan, status := pl.searchOn(ctx, l, best, l.task.Solve)
	if status != nil {
		return status
	}
	if status = pl.charge(ctx, l, plan); status != nil {
		usual, none := pl.searchOn(ctx, l, pl.nodeView(l.cycle, node), l.task.Solve)
		if none != nil || pl.charge(ctx, l, usual) != nil {
			return status
		}
		plan, status = usual, nil
		l.noteUsual(node.Name, true)
	} else if l.dryRun != nil {
		l.noteUsual(node.Name, false)
	}
	if l.scored && status == nil && l.dryRun == nil {
		l.noteFound(node, plan)
	}
	return status
}

// noteUsual remembers whether a node has enough only for the first devices.
func (l *look) noteUsual(node string, usual bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cycle.usual == nil {
		l.cycle.usual = make(map[string]bool)
	}
	l.cycle.usual[node] = usual
}

// affordableView returns the site of a node for a plan that the node has enough for, as far as Filter or a dry run has found out.
func (pl *Quartermaster) affordableView(c *cycle, node *v1.Node) allocator.NodeView {
	c.mutex.Lock()
	usual := c.usual[node.Name]
	c.mutex.Unlock()
	if usual {
		return pl.nodeView(c, node)
	}
	return pl.valuedView(c, node)
}

// charge judges whether the node has enough resources for a plan, and keeps the plan for Reserve if it has.
func (pl *Quartermaster) charge(ctx context.Context, l *look, plan []resourceapi.AllocationResult) *fwk.Status {
	given, status := pl.openAccount(ctx, l.cycle)
	if status == nil {
		status = pl.checkBacking(plan, given)
	}
	if status != nil {
		return status
	}
	takes, status := l.account.Charge(ctx, l.assumedFrom(), l.info, plan[:min(given, len(plan))])
	if status.Code() == fwk.UnschedulableAndUnresolvable && l.task != nil && (l.task.HasAlternatives() || !pl.takesTheSame(l.node())) {
		status = kube.Recoded(fwk.Unschedulable, status) // Without some pods the plan may have devices that take less.
	}
	if status != nil {
		if l.dryRun == nil {
			l.pod.Causes.Note(reasons.NodeFull)
			l.pod.NoteRoom()
			l.pod.HelpedByAnySlice()
		}
		return l.toldOnce(ctx, status)
	}
	if l.dryRun == nil {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if l.charges == nil {
			l.charges = make(map[string]*charge)
		}
		l.charges[l.node().Name] = &charge{plan: plan, status: takes}
	}
	return nil
}

// notEnough is the reason for a node that does not have enough, if too many different ones were told.
const notEnough = "too few resources of the node for the pod's devices"

// toldOnce limits the different reasons of an attempt: each node has another amount left. An error is about this node's devices only, so
// that the pod may fit on others.
func (l *look) toldOnce(ctx context.Context, status *fwk.Status) *fwk.Status {
	if status.Code() == fwk.Error {
		return unschedulable("%s", l.reasons.OfError(ctx, l.node(), status.AsError()))
	}
	if !l.reasons.MayTell(status.Message()) {
		return kube.New(status.Code(), notEnough)
	}
	return status
}

// assumedFrom returns the CycleState that has to say what the pod takes: its attempt's, or that of an eviction's dry run.
func (l *look) assumedFrom() fwk.CycleState {
	if l.dryRun != nil && l.cycle.dryRun == nil {
		return l.cs
	}
	return l.state
}

// takesTheSame reports whether all devices of a node that take resources of it take the same, and none of their pools has others.
func (pl *Quartermaster) takesTheSame(node *v1.Node) bool {
	var first *resourceapi.Device
	for _, pool := range pl.state.Inventory.OnNode(node) {
		if pool.State != inventory.Complete {
			continue
		}
		if !pool.OfNode.Empty() && pool.OfNode.Len() < len(pool.Devices) {
			return false // Others take nothing.
		}
		for i := range pool.OfNode.All() {
			switch device := pool.Devices[i].Device; {
			case first == nil:
				first = device
			case !quantity.DeepEqual(first.NodeAllocatableResources, device.NodeAllocatableResources):
				return false
			}
		}
	}
	return true
}

// openAccount opens the account of the pod, once. It returns how many claims a plan has before those for extended resources.
func (pl *Quartermaster) openAccount(ctx context.Context, c *cycle) (given int, status *fwk.Status) {
	c.accountOnce.Do(func() { c.account, c.given, c.unusable = pl.accountOf(ctx, c.pod.Latest(), c.claims) })
	return c.given, c.unusable
}

// accountOf returns the account of a pod with these claims, and how many of them are open and not for extended resources.
func (pl *Quartermaster) accountOf(ctx context.Context, pod *v1.Pod, all []*podClaim) (account *nodeallocatable.Account, given int, status *fwk.Status) {
	claims, given, status := pl.accountable(pod, all)
	if status == nil {
		account, status = pl.accountant.Open(ctx, pod, claims)
	}
	return account, given, status
}

// accountable returns the claims that an account of the pod has, and how many of them are open.
func (pl *Quartermaster) accountable(pod *v1.Pod, all []*podClaim) (claims []nodeallocatable.Claim, open int, status *fwk.Status) {
	assignment := pl.state.gangs.Assignment(pod.UID)
	for _, podClaim := range all {
		decided := podClaim.Decided()
		if podClaim.Origin != commit.Given {
			if decided != nil && pl.accountant.TakesOfNode(decided) {
				return nil, 0, pl.refuseExtended()
			}
			continue
		}
		if decided == nil {
			open++
		}
		// A plan for the pod's gang gives no two pods a claim that only one can use.
		shared := podClaim.Shared != nil && (assignment == nil || assignment.Allocations[podClaim.Object.UID] == nil)
		claims = append(claims, nodeallocatable.Claim{Object: podClaim.Object, Decided: decided, Shared: shared})
	}
	return claims, open, nil
}

// checkBacking refuses a plan, which has the given number of allocations before those for extended resources, if the latter take
// resources of the node.
func (pl *Quartermaster) checkBacking(plan []resourceapi.AllocationResult, given int) *fwk.Status {
	for i := given; i < len(plan); i++ {
		if pl.accountant.TakesOfNode(&plan[i]) {
			return pl.refuseExtended()
		}
	}
	return nil
}

// refuseExtended returns the status of a node where such devices would back extended resources: the API server accepts in the pod's
// status only claims that the pod names.
func (*Quartermaster) refuseExtended() *fwk.Status {
	return unschedulable("the devices for the pod's extended resources stand for or need resources of the node; " +
		"these can be accounted for only if the pod asks for the devices in a ResourceClaim")
}

// confirmCharge checks in Reserve that kube-scheduler counts what the plan takes of the node.
func (pl *Quartermaster) confirmCharge(c *cycle, pod *v1.Pod, node string, plan []resourceapi.AllocationResult) error {
	charge := c.charges[node]
	switch {
	case pl.accountant == nil:
	case charge == nil || len(charge.status) == 0:
		for i := range plan {
			if pl.accountant.TakesOfNode(&plan[i]) {
				return fmt.Errorf("the devices on node %s stand for or need resources of the node which they did not when it was chosen; trying again", node)
			}
		}
	case len(charge.status) > 0 && !quantity.DeepEqual(pod.Status.NodeAllocatableResourceClaimStatuses, charge.status):
		return errors.New("kube-scheduler has not assumed what the devices take of node " + node + "; trying again")
	}
	return nil
}
