package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd/coordinator"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/preemption/choose"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// preemptForGang chooses pods of lower priority to evict for a gang, and evicts them: for all of its pods, or not at
// all. NominatedDevices keeps their devices for the gang's pods.
func (pl *Quartermaster) preemptForGang(ctx context.Context, pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	began, inVain := time.Now(), true
	defer func() {
		if inVain { // Otherwise the gang is to get its turn as soon as its victims have ended.
			pl.state.gangs.TookMore(pod, time.Since(began))
		}
	}()
	says := func(hopeless bool, format string, args ...any) (*fwk.PostFilterResult, *fwk.Status) {
		verdict := coordinator.Verdict{Said: fmt.Sprintf(format, args...), Hopeless: hopeless}
		pl.state.gangs.SetVerdict(pod, verdict) // The verdict applies to all pods of the gang.
		if hopeless {
			pl.state.Freed(pl.state.nominations.DropGroup(pod)) // The API server may never have got them, so that nothing else ends them.
		}
		return pl.unlessKept(pod, verdict), unschedulable("%s", verdict.Said)
	}
	group, members, need, err := pl.state.gangs.Pending(pod)
	if err != nil || need <= 0 || !pl.preemption.Enabled() {
		return says(true, "no pods are evicted for the group")
	}
	least := pl.leastImportant(members.Waiting)
	isNominated := func(member *v1.Pod) bool { return pl.state.nominations.Of(member.UID) != nil }
	if least == nil || !pl.mayPreempt(least) && !slices.ContainsFunc(members.Waiting, isNominated) {
		return says(true, "no pods are evicted for the group")
	}
	if left := pl.state.gangs.Awaited(group.Name); left > 0 {
		return says(false, "waiting for %d evicted pods to end; the group gets their place", left)
	}
	d := &gangDryRun{pl: pl, ctx: ctx, group: group, ended: pl.nominated.Ended(members.Waiting), gang: planning.Gang{Name: group.Name, Pods: members.Waiting, Need: need, Wish: group.Wish}}
	for _, member := range members.Assigned {
		d.gang.On = append(d.gang.On, member.Spec.NodeName)
	}
	if _, fits := d.plan(nil, nil); fits { // Devices became free meanwhile, or will once claims are deallocated.
		return says(false, "no pods are evicted: there is room for the group or will be as soon as claims of pods that have ended are deallocated")
	}
	if !pl.mayPreempt(least) { // Nobody is left, perhaps because these have been evicted.
		return says(true, "no pods are evicted for the group")
	}
	if rest := pl.preemptionDelay(need, members.Waiting...); rest > 0 {
		pl.state.gangs.WakeIn(group.Name, rest)
		return says(false, "%s", pl.delayed())
	}
	units, err := pl.preemption.Units(ctx, group.Name, pl.holders.Priority(least))
	if err != nil {
		return nil, failed(err)
	}
	d.costs = choose.CostsOf(units)
	question := &choose.Question[*gangPlan]{Units: units, DryRun: d, Budget: choose.MostPlans}
	chosen, plan, ok := question.Choose()
	switch {
	case d.err != nil:
		return nil, failed(d.err)
	case !ok || len(chosen) == 0:
		return says(true, "no pods are evicted: the group would not fit even then")
	}
	inVain = false
	victims := choose.PodsOf(chosen)
	node := pl.evictForGang(ctx, group.Name, plan, victims)[pod.UID]
	result, status := says(false, "%d pods are evicted for all %d pods of the group", len(victims), len(plan.assignments))
	if node != "" {
		result = &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}}
		status = kube.Recoded(fwk.Success, status)
	}
	return result, status
}

// leastImportant returns the pod that decides what a gang may evict: one that never preempts, otherwise one of the lowest priority. The
// gang's other pods cannot run without it, whichever of them is tried.
func (pl *Quartermaster) leastImportant(pods []*v1.Pod) (least *v1.Pod) {
	for _, pod := range pods {
		switch {
		case !podutil.Preempts(pod):
			return pod
		case least == nil || pl.holders.Priority(pod) < pl.holders.Priority(least):
			least = pod
		}
	}
	return least
}

// unlessKept ends the nomination of a pod if the verdict is hopeless.
func (pl *Quartermaster) unlessKept(pod *v1.Pod, verdict coordinator.Verdict) *fwk.PostFilterResult {
	if !verdict.Hopeless {
		return nil
	}
	pl.state.Freed(pl.state.nominations.Drop(pod.UID)) // The API server may never have got the nomination.
	if pod.Status.NominatedNodeName == "" {
		return nil
	}
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
}

// evictForGang evicts pods, and keeps the planned devices for the gang's pods. It returns the nodes of these, by UID.
func (pl *Quartermaster) evictForGang(ctx context.Context, gang string, plan *gangPlan, victims []*v1.Pod) map[types.UID]string {
	pl.state.gangs.Await(gang, victims)
	var pods []*v1.Pod
	nodes := make(map[types.UID]string)
	for _, assignment := range plan.assignments {
		pods, nodes[assignment.Pod.UID] = append(pods, assignment.Pod), assignment.Node
	}
	own := pl.nominated.OwnClaims(pods...)
	for _, assignment := range plan.assignments {
		pl.nominated.Keep(ctx, assignment.Pod, assignment.Node, usesOf(assignment), own, victims)
	}
	klog.FromContext(ctx).V(2).Info("Evicting pods for a group", "podGroup", gang, "pods", len(pods), "victims", len(victims))
	pl.preemption.EvictFor(pods, nodes, victims, func(stay []*v1.Pod) { pl.state.gangs.Evicted(gang, stay) })
	return nodes
}

// usesOf returns the planned allocations of an assignment's claims.
func usesOf(assignment *planning.Assignment) []ledger.Use {
	uses := make([]ledger.Use, 0, len(assignment.Claims))
	for _, claim := range assignment.Claims {
		uses = append(uses, ledger.Use{Claim: ledger.RefTo(claim), Allocation: assignment.Allocations[claim.UID]})
	}
	return uses
}

// A gangDryRun plans a gang as if some pods were gone.
type gangDryRun struct {
	pl    *Quartermaster
	ctx   context.Context
	group *coordinator.Group
	gang  planning.Gang
	// lacks is set if the cluster has less than the group's minResources free without evictions.
	lacks bool
	costs choose.Costs
	// ended are the uses of victims that have ended.
	ended []ledger.Use
	// err is the first error, nil if there was none.
	err error
}

// A gangPlan is a placement of a gang, with its nodes and devices.
type gangPlan struct {
	assignments []*planning.Assignment
	nodes       sets.Set[string]
	devices     map[device]bool
}

// A device is a device that a plan takes.
type device struct {
	pool inventory.PoolID
	name string
}

// Fits implements choose.DryRun.
func (d *gangDryRun) Fits(gone []*choose.Unit) (*gangPlan, bool) { return d.plan(gone, nil) }

// Within implements choose.DryRun.
func (d *gangDryRun) Within(plan *gangPlan, gone []*choose.Unit) (*gangPlan, bool) {
	return d.plan(gone, plan.nodes)
}

func (d *gangDryRun) plan(gone []*choose.Unit, only sets.Set[string]) (*gangPlan, bool) {
	released := append([]ledger.Use{}, d.ended...)
	released = append(released, d.pl.holders.Released(preemption.ByUID(choose.PodsOf(gone)))...)
	var out *planning.Outcome
	var err error
	failed := d.pl.preemption.Without(d.ctx, gone, func(nodes []fwk.NodeInfo) {
		if d.pl.state.gangs.Enough(d.group, nodes) != nil {
			d.lacks = d.lacks || len(gone) == 0
			return
		}
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(node fwk.NodeInfo) bool { return only != nil && !only.Has(node.Node().Name) })
		slices.SortStableFunc(nodes, func(a, b fwk.NodeInfo) int { return d.costs.Compare(a.Node().Name, b.Node().Name) })
		out, err = d.pl.planPods(d.ctx, nodes, d.gang, released)
	})
	if failed != nil || err != nil {
		d.err = errors.Join(failed, err)
		return nil, false
	}
	if out == nil || out.Plan == nil {
		return nil, false
	}
	plan := &gangPlan{assignments: out.Assignments(d.gang.Name), nodes: sets.New[string](), devices: make(map[device]bool)}
	for _, assignment := range plan.assignments {
		plan.nodes.Insert(assignment.Node)
		for _, use := range usesOf(assignment) {
			for result := range ledger.Used(use.Allocation) {
				plan.devices[device{ledger.PoolOf(result), result.Device}] = true
			}
		}
	}
	return plan, true
}

// InTheWay implements choose.DryRun: a unit is in the way if it has a pod on one of the nodes, or holds one
// of the devices, or holds resources on any node that the group's minResources lack.
func (d *gangDryRun) InTheWay(plan *gangPlan, unit *choose.Unit) bool {
	for _, pod := range unit.Pods {
		if plan.nodes.Has(pod.Spec.NodeName) || d.lacks && d.group.Wants(pod) {
			return true
		}
		for _, use := range d.pl.holders.UsesOf(pod) {
			for result := range ledger.Used(use.Allocation) {
				if plan.devices[device{ledger.PoolOf(result), result.Device}] {
					return true
				}
			}
		}
	}
	return false
}
