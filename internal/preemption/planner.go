package preemption

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Planner says what pods are to get that are nominated for nodes, and keeps that for them. It is safe for concurrent
// use.
type Planner struct {
	*Nominations
	Holders   *Holders
	Claims    *podclaims.Claims
	Solver    *allocator.Solver
	Inventory *inventory.Store
	Nodes     corelisters.NodeLister
	// Freed is told of devices that are not kept any more.
	Freed func(ledger.Freed)
	// Await has claims deallocated for a pod as soon as nobody uses them.
	Await func(pod types.UID, claims ...ledger.ClaimRef)

	kept kept
}

// Plan returns what claims are to get on a site, nil if there are no devices for them.
func Plan(ctx context.Context, task *allocator.Task, claims []*resourceapi.ResourceClaim, site allocator.Site) []ledger.Use {
	outcome, err := task.Solve(ctx, site)
	if err != nil || !outcome.Fits() {
		return nil
	}
	var plan []ledger.Use
	for i := range outcome.Results {
		plan = append(plan, ledger.Use{Claim: ledger.RefTo(claims[i]), Allocation: &outcome.Results[i]})
	}
	return plan
}

// Keep keeps a plan for a pod that is nominated for a node, and not any more what it was to get before. The victims
// are gone in the plan.
func (p *Planner) Keep(ctx context.Context, pod *v1.Pod, node string, plan []ledger.Use, victims []*v1.Pod) bool {
	if plan == nil {
		klog.FromContext(ctx).V(4).Info("Cannot plan which devices a nominated pod gets; none are kept for it", "pod", klog.KObj(pod), "node", klog.KRef("", node))
		return false
	}
	nomination := &Nomination{
		Pod: pod.UID, Group: GroupOf(pod), Priority: p.Holders.Priority(pod), Node: node, Plan: plan, Victims: victims,
	}
	for _, use := range p.Holders.Released(ByUID(victims)) {
		nomination.Awaited = append(nomination.Awaited, use.Claim)
	}
	if p.Holders.Trying(pod.UID) != nil { // Others are looked after by their scheduler.
		p.Await(pod.UID, nomination.Awaited...)
	} else {
		nomination.Until = time.Now().Add(KeptForOthers)
		time.AfterFunc(KeptForOthers, func() { p.Freed(p.Expire(nomination)) })
	}
	p.Freed(p.Set(nomination))
	if now := p.Claims.Pod(pod.Namespace, pod.Name); now == nil || now.UID != pod.UID || now.Spec.NodeName != "" || now.DeletionTimestamp != nil {
		p.Freed(p.Drop(pod.UID)) // It ended before there was anything to drop, and nobody else will do it.
		p.Await(pod.UID)
		return false
	}
	return true
}

// PlanNominated finds out what pods get that are nominated for a node and have a higher priority than a pod that is
// about to be tried: those of other schedulers, and all after a restart.
func (p *Planner) PlanNominated(ctx context.Context, before *v1.Pod) {
	for _, pod := range p.Unplanned(before.UID, p.Holders.Priority(before), p.Holders.Priority, time.Now()) {
		if p.isInFlight(pod.UID) {
			continue
		}
		node, err := p.Nodes.Get(pod.Status.NominatedNodeName)
		if err != nil {
			continue
		}
		all, err := p.Claims.Of(pod)
		if err != nil {
			continue
		}
		claims := podclaims.Unallocated(all)
		task := p.Solver.Prepare(claims)
		if len(claims) == 0 || task.Err() != nil {
			continue
		}
		site := allocator.Site{Node: node, Pools: p.Inventory.OnNode(node)}
		usage, _ := p.UsageFor(pod)
		standing := NewStanding(p.Holders, usage, p.Holders.Priority(pod))
		leaving := Leaving(standing.Elsewhere(site.Pools, ""))
		site.Usage = standing.Without(ByUID(leaving))
		p.Keep(ctx, pod, node.Name, Plan(ctx, task, claims, site), leaving)
	}
}

// UsageFor returns what is in use in the eyes of a pod: of what is kept for others that are nominated, it may only
// take what is kept for those of lower priority. It also says in which pools it may not take something, nil if in none.
func (p *Planner) UsageFor(pod *v1.Pod) (usage ledger.View, kept func(inventory.PoolID) bool) {
	var against []ledger.Use
	for _, nomination := range p.Against(pod, p.Holders.Priority(pod), time.Now()) {
		if p.isInFlight(nomination.Pod) {
			continue
		}
		for _, use := range nomination.Plan {
			if p.Holders.Ledger.UseOf(use.Claim.UID).Allocation == nil { // Else it has what it needs.
				against = append(against, use)
			}
		}
	}
	if len(against) == 0 {
		if p.areNone() {
			p.kept.forget()
		}
		return p.Holders.Ledger, nil
	}
	view := p.kept.keeping(p.Holders.Ledger, against)
	return view, view.keepsIn
}

// isInFlight reports whether an attempt to bind a pod is under way: what that has planned is in the ledger.
func (p *Planner) isInFlight(pod types.UID) bool {
	return slices.ContainsFunc(p.Holders.Ledger.UsesBy(pod), func(use ledger.Use) bool { return slices.Contains(use.InFlight, pod) })
}

// GroupWaits returns the nominations of a group's pods for which others were evicted that have not ended yet, nil if
// there are none.
func (p *Planner) GroupWaits(members []*v1.Pod) *fwk.PodGroupPostFilterResult {
	waits := false
	infos := make(map[types.NamespacedName]*fwk.NominatingInfo)
	for _, pod := range members {
		if nomination := p.Of(pod.UID); nomination != nil {
			waits = waits || len(p.Holders.Leaving(nomination)) > 0
			infos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nomination.Node}
		}
	}
	if !waits {
		return nil
	}
	return &fwk.PodGroupPostFilterResult{NominatingInfos: infos}
}

// ByUID returns pods by UID.
func ByUID(pods []*v1.Pod) map[types.UID]*v1.Pod {
	result := make(map[types.UID]*v1.Pod, len(pods))
	for _, pod := range pods {
		result[pod.UID] = pod
	}
	return result
}
