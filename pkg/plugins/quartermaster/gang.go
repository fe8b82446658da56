package quartermaster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/filters"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// beginGang begins the pod's turn in the queue, and plans the pod's gang if it has one. It returns the pod's assignment in the
// plan; nil if the pod belongs to no gang. The error says why the gang cannot be scheduled for now.
func (pl *Quartermaster) beginGang(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*planning.Assignment, error) {
	pl.state.turns.Begin(pod, pl.takesTurns(pod))
	assignment, err := pl.state.gangs.Begin(ctx, cs, pod, nodes, pl.planGang(nodes))
	pl.waiting.AwaitsGroup(pod, err != nil)
	return assignment, err
}

// planGang returns the planner for gangs on the nodes of an attempt.
func (pl *Quartermaster) planGang(nodes []fwk.NodeInfo) coordinator.PlanFunc {
	return func(ctx context.Context, group *coordinator.Group, members *coordinator.Members, need int) (*coordinator.Plan, error) {
		pl.state.Free.Follow(nodes, false) // The node cache finds no other nodes; the gang may be the first that is tried.
		gang := planning.Gang{Name: group.Name, Pods: members.Waiting, Need: need, Wish: group.Wish}
		for _, pod := range members.Assigned {
			gang.On = append(gang.On, pod.Spec.NodeName)
		}
		out, err := pl.planPods(ctx, nodes, gang, nil)
		if err != nil {
			return nil, err
		}
		reason := out.Reason(func(classes []string) string {
			return pl.state.gangs.Holders(group.Name, func(pod *v1.Pod) int {
				return planning.DevicesOf(pl.needs.Of(pod).All(), classes)
			})
		})
		if reason != "" && len(members.Waiting) > 0 {
			reason += pl.heldFromGroup(members.Waiting[0])
		}
		return &coordinator.Plan{Assignments: out.Assignments(group.Name), Reason: reason, Again: out.GaveUp || out.Pending != nil}, nil
	}
}

// mostEvaluated limits the time for evaluating expressions for a gang, as a multiple of the time for a pod.
const mostEvaluated = 10

// planPods looks for nodes and devices for pods together. If released is not nil, it plans as if these uses, and all
// claims that are about to be deallocated, had ended.
func (pl *Quartermaster) planPods(ctx context.Context, nodes []fwk.NodeInfo, gang planning.Gang, released []ledger.Use) (*planning.Outcome, error) {
	if err := pl.state.Sync(ctx); err != nil {
		return nil, err
	}
	run, ok := pl.handle.(filters.Framework)
	if !ok {
		return nil, errors.New("the scheduler's framework does not let plugins ask each other; use the one that kube-scheduler has")
	}
	describer := pl.describer(nodes)
	if pl.accountant != nil {
		describer.Account = pl.accountsOf(ctx)
	}
	planner := &planning.Planner{
		Solver: pl.solver, Framework: run, Nodes: nodes, Pods: &gangPods{describer, pl, gang, pl.nominated.OwnClaims(gang.Pods...), nodes, released},
		Steps: int(*pl.args.GangStepBudget),
	}
	evaluation := pl.attemptBudget * time.Duration(min(len(gang.Pods), mostEvaluated)) // One attempt for all of them.
	return planner.Plan(selector.WithBudget(ctx, selector.NewBudget(evaluation, 0)), gang)
}

// describer returns the Describer for planning a gang's pods.
func (pl *Quartermaster) describer(nodes []fwk.NodeInfo) *eligibility.Describer {
	return &eligibility.Describer{Needs: &pl.needs, Rules: pl.rules(nil, nil), Nodes: nodes}
}

// gangPods implements planning.Pods for the pods of a gang; see planPods about released.
type gangPods struct {
	*eligibility.Describer
	pl       *Quartermaster
	gang     planning.Gang
	own      sets.Set[types.UID]
	nodes    []fwk.NodeInfo
	released []ledger.Use
}

// View implements planning.Pods. It returns a pod's view of the devices, on behalf of all pods of its gang that are
// like it. A device that failed for any pod of the gang counts as failed for each: it is not decided yet which pod
// gets which device.
func (g *gangPods) View(ctx context.Context, pod *v1.Pod) (*planning.View, error) {
	pl, cs := g.pl, kube.NewCycleState()
	c := pl.newCycle(pl.needs.Of(pod), preemption.ForGang(cs, g.released), len(g.nodes))
	if c.own = g.own; g.gang.Need == len(g.gang.Pods) {
		c.exempt = g.own
	}
	_, status := pl.preFilter(ctx, cs, c, pod, g.nodes)
	if status.IsRejected() && !status.IsSkip() || status.Code() == fwk.Error {
		return nil, status.AsError()
	}
	c.failed = pl.failed(c.claims, append([]*v1.Pod{pod}, g.gang.Pods...)...)
	if c.dryRun.Releases() {
		c.usage, c.known = c.dryRun.Usage(pl.reclaimable(c)), nil
	}
	if len(c.unplanned) > 0 {
		time.AfterFunc(preemption.UndecidedFor, pl.state.gangs.StirAll)
	}
	sites := &cycleSites{pl: pl, cycle: c, times: make(map[string]int)}
	view := &planning.View{Sites: sites}
	task := c.usualTask()
	if task == nil {
		return view, nil
	}
	view.Shared = pl.state.NodeCache.MayShare(ctx, task)
	if c.known == nil {
		return view, nil
	}
	view.Has = pl.mayHaveDevices(c, len(g.nodes))
	if !c.scored && !c.known.IsShared() && pl.offering(c).Len() == 0 {
		view.Values = sites
	}
	return view, nil
}

// cycleSites are the nodes as the cycle of a pod sees them. It implements devices.Sites and planning.Values.
type cycleSites struct {
	pl *Quartermaster
	*cycle
	// times remembers by node whether it may have devices that failed for the gang, as 1 or 0.
	times map[string]int
}

// Site implements devices.Sites.
func (s *cycleSites) Site(node *v1.Node) allocator.NodeView {
	return s.planned(s.pl.nodeView(s.cycle, node))
}

// Valued implements devices.Sites.
func (s *cycleSites) Valued(node *v1.Node) allocator.NodeView {
	return s.planned(s.pl.valuedView(s.cycle, node))
}

// planned leaves out pools with devices for nominated pods whose plans are undecided.
func (s *cycleSites) planned(site allocator.NodeView) allocator.NodeView {
	if len(s.unplanned) > 0 {
		site.Pools = slices.DeleteFunc(slices.Clone(site.Pools), func(pool *inventory.NodePool) bool { return s.unplannedIn(pool.ID) != nil })
	}
	return site
}

// Value implements planning.Values: it returns the node cache's values, with nodes last that may have devices that
// failed for the gang.
func (s *cycleSites) Value(name string) (allocator.Value, bool) {
	value, known := s.known.Value(name)
	if s.failed == nil {
		return value, known
	}
	if _, found := s.times[name]; !found {
		s.times[name] = 0
		if node, err := s.pl.nodes.Get(name); err == nil && s.hasFailedIn(s.pl.state.Inventory.OnNode(node)) {
			s.times[name] = 1
		}
	}
	value.Failed += s.times[name]
	return value, known
}

// otherHints returns the hints of the profile's other plugins, for pods of gangs.
func (pl *Quartermaster) otherHints(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	others, err := pl.otherPlugins()
	if err != nil {
		return nil, err
	}
	return pl.state.gangs.Hints(ctx, pl.handle.ProfileName(), others)
}

// Permit lets the pods of a gang wait for each other.
func (pl *Quartermaster) Permit(_ context.Context, cs fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	return pl.state.gangs.Permit(cs, pod, Name)
}

// postFilterGang implements PostFilter for pods of gangs; it returns nil for others. If the assignment of a pod does not fit,
// the plan for the whole gang is given up. If a gang does not fit, claims that only its waiting pods have reserved are
// released.
func (pl *Quartermaster) postFilterGang(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	if assignment := pl.state.gangs.Unfit(cs, pod); assignment != nil {
		return nil, unschedulable("group %s: node %s (planned for the pod) does not suit it any more; all pods of the group are planned again", assignment.Gang, assignment.Node)
	}
	if !pl.state.gangs.Misfit(pod) {
		return nil, pl.removeStale(ctx, pod)
	}
	if known := pl.state.gangs.Verdict(pod); known.Said != "" {
		return pl.unlessKept(pod, known), unschedulable("%s", known.Said)
	}
	released, err := pl.releaseForGang(ctx, cs, pod)
	switch {
	case err != nil:
		return nil, failed(err)
	case len(released) > 0:
		return nil, unschedulable("released because the group does not fit: claims %s", strings.Join(released, " "))
	case pl.takeover.Left() > 0 && (!coordinator.HasPlanned(cs) || slices.ContainsFunc(pl.state.gangs.MembersOf(pod).Waiting, pl.takeover.Keeps)): // No verdict: it ends with the pause.
		return nil, unschedulable("what another process reserved for the group is left alone for now: it may have sent bindings")
	}
	return pl.preemptForGang(ctx, pod)
}

// removeStale removes claims for extended resources of a gang's pod that only prevent the gang from being planned.
func (pl *Quartermaster) removeStale(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if crd.KeyOf(pod) == "" {
		return nil
	}
	return ofRemoval(pl.remover.RemoveStale(ctx, pod))
}

// releaseForGang releases claims that are reserved only for waiting pods of a gang: the results of a failed attempt
// must not decide where the gang goes, nor keep devices from other pods.
func (pl *Quartermaster) releaseForGang(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) (released []string, err error) {
	waiting := sync.OnceValue(func() map[types.UID]*v1.Pod { return preemption.ByUID(pl.state.gangs.MembersOf(pod).Waiting) })
	members := map[types.UID]*v1.Pod{pod.UID: pod}
	if coordinator.HasPlanned(cs) {
		members = waiting() // Each other pod releases only its own claims: there may be many pods.
	}
	for _, member := range members {
		more, err := pl.remover.Release(ctx, member, waiting)
		if released = append(released, more...); err != nil {
			return released, err
		}
	}
	slices.Sort(released)
	return slices.Compact(released), nil
}
