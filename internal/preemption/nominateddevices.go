package preemption

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// A NominatedDevices plans allocations for nominated pods, and keeps the devices for them. It is safe for concurrent use.
type NominatedDevices struct {
	*Nominations
	Holders   *Holders
	Needs     *eligibility.Finder
	Solver    *allocator.Solver
	Inventory *inventory.Store
	Nodes     corelisters.NodeLister
	// Waker wakes the pods that wait for devices that are no longer kept.
	Waker ledger.Receiver
	// Release deallocates the claims that nominated pods wait for.
	Release *Release

	kept kept
}

// Plan returns allocations for claims on a site, nil if the devices do not suffice.
func Plan(ctx context.Context, task *allocator.Task, claims []*resourceapi.ResourceClaim, site allocator.NodeView) []ledger.Use {
	plan, _ := PlanOrError(ctx, task, claims, site)
	return plan
}

// PlanOrError works like Plan. The error is the search's.
func PlanOrError(ctx context.Context, task *allocator.Task, claims []*resourceapi.ResourceClaim, site allocator.NodeView) (plan []ledger.Use, err error) {
	outcome, err := task.Solve(ctx, site)
	if err != nil || !outcome.Fits() {
		return nil, err
	}
	for i := range outcome.Results {
		plan = append(plan, ledger.Use{Claim: ledger.RefTo(claims[i]), Allocation: &outcome.Results[i]})
	}
	return plan, nil
}

// Keep stores a plan for a pod that is nominated for a node, in place of its previous plan. The plan takes the
// victims as gone. own are the claims of all pods that are nominated together, nil for those of the pod: they are not waited for. Keep reports
// whether devices are kept.
func (p *NominatedDevices) Keep(ctx context.Context, pod *v1.Pod, node string, plan []ledger.Use, own sets.Set[types.UID], victims []*v1.Pod) bool {
	return p.keep(ctx, pod, node, plan, own, victims, func(nomination *Nomination) (ledger.Freed, bool) { return p.Set(nomination), true })
}

// keep implements Keep. set stores the nomination, or returns false.
func (p *NominatedDevices) keep(ctx context.Context, pod *v1.Pod, node string, plan []ledger.Use, own sets.Set[types.UID], victims []*v1.Pod, set func(*Nomination) (ledger.Freed, bool)) bool {
	if own == nil {
		own = p.OwnClaims(pod)
	}
	relies := p.allocatedTo(pod)
	if plan == nil {
		klog.FromContext(ctx).V(4).Info("Cannot plan which devices a nominated pod gets; none are kept for it", "pod", klog.KObj(pod), "node", klog.KRef("", node))
		return false
	}
	if len(plan)+len(relies) == 0 {
		return false
	}
	nomination := &Nomination{
		Pod: pod.UID, Group: GroupOf(pod), Priority: p.Holders.Priority(pod), Node: node, Plan: plan, Relies: relies, Victims: victims, Since: time.Now(),
	}
	var pools []inventory.PoolID
	for _, use := range plan {
		for result := range ledger.Used(use.Allocation) {
			pools = append(pools, ledger.PoolOf(result))
		}
	}
	for _, use := range p.Holders.Released(ByUID(victims)) {
		// Claims elsewhere are not in the way: that of a PodGroup is its own as long as the group is there.
		if use.IsIn(pools) && !own.Has(use.Claim.UID) {
			nomination.Awaited = append(nomination.Awaited, use.Claim)
		}
	}
	if nomination.Theirs = !p.Holders.Profiles.Schedules(pod.Spec.SchedulerName); !nomination.Theirs { // Other schedulers await claims for their own pods.
		p.Release.Await(pod.UID, nomination.Awaited...)
	}
	if isTried := p.Holders.Profiles.Trying(pod.UID) != nil || nomination.Group != ""; nomination.Theirs || !isTried {
		nomination.Until = time.Now().Add(KeptForOthers)
		time.AfterFunc(KeptForOthers, func() { p.Waker.Freed(p.Expire(nomination)) })
	}
	freed, ok := set(nomination)
	if !ok {
		p.Release.Await(pod.UID)
		return false
	}
	p.Waker.Freed(freed)
	if now := p.Needs.Claims.Pod(pod.Namespace, pod.Name); now == nil || now.UID != pod.UID || now.Spec.NodeName != "" || now.DeletionTimestamp != nil {
		p.Waker.Freed(p.Drop(pod.UID)) // The pod ended before Set: no event will drop the nomination.
		p.Release.Await(pod.UID)
		return false
	}
	return true
}

// allocatedTo returns the uses of those claims of a pod that are allocated.
func (p *NominatedDevices) allocatedTo(pod *v1.Pod) (uses []ledger.Use) {
	claims, _ := p.Needs.Claims.Of(pod)
	for _, claim := range claims {
		if use := p.Holders.Ledger.UseOf(claim.UID); use.Allocation != nil {
			uses = append(uses, ledger.Use{Claim: use.Claim, Allocation: use.Allocation})
		}
	}
	return uses
}

// An Undecided is a nominated pod whose devices cannot be planned yet, because an expression is still being evaluated. Pods that come after
// it must leave the pools of its node alone until then: for these, it is the error.
type Undecided struct {
	Pools []*inventory.NodePool
	// pending is a selector.ErrPending.
	pending error
}

// Error does not name the expression, which is another tenant's.
func (u *Undecided) Error() string {
	return "devices of the node are for a nominated pod that comes first and it is not known yet which because an expression takes long " +
		"to evaluate; trying again when it is done"
}

func (u *Undecided) Unwrap() error { return u.pending }

// PlanNominated makes plans for nominated pods that have none and that come before the pod to
// be tried next: pods of other schedulers, and those that wait after a restart. It returns those that it cannot plan for yet.
func (p *NominatedDevices) PlanNominated(ctx context.Context, before *v1.Pod) (undecided []Undecided) {
	for _, pod := range p.Unplanned(before.UID, p.Holders.Priority(before), p.Holders, time.Now()) {
		if p.IsInFlight(pod.UID) { // If it gives that up, the next attempt makes a plan.
			p.forgetTry(pod.UID)
			continue
		}
		node, err := p.Nodes.Get(pod.Status.NominatedNodeName)
		if err != nil {
			continue
		}
		needs := p.Needs.Of(pod)
		ours, backing, _, err := needs.Ours()
		if err != nil {
			continue
		}
		if backing != nil && !needs.MayBeMetBy(node) {
			ours = append(slices.Clip(ours), backing)
		}
		claims := podclaims.Unallocated(ours)
		task := p.Solver.Prepare(claims)
		if len(claims) == 0 || task.Err() != nil {
			continue
		}
		site := allocator.NodeView{Node: node, Pools: p.Inventory.OnNode(node)}
		var ofGroup []ledger.Use // Each pod of a group gets devices of its own.
		for _, nomination := range p.OfGroup(pod) {
			ofGroup = append(ofGroup, p.openOf(nomination)...)
		}
		usage, _ := p.UsageFor(pod, nil, ofGroup...)
		var own []types.UID
		for _, claim := range ours {
			own = append(own, claim.UID)
		}
		reclaimable := NewReclaimable(p.Holders, usage, p.Holders.Priority(pod), own...)
		leaving := Leaving(reclaimable.Elsewhere(ctx, site.Pools, "", task))
		site.Usage = reclaimable.Without(ByUID(leaving))
		plan, err := PlanOrError(ctx, task, claims, site)
		if errors.Is(err, selector.ErrPending) && p.PlanSoon(pod.UID, time.Now()) {
			if group := GroupOf(pod); group == "" || group != GroupOf(before) { // Pods of a group keep nothing from each other.
				undecided = append(undecided, Undecided{Pools: interesting(ctx, task, site.Pools), pending: err})
			}
			continue
		}
		p.keep(ctx, pod, node.Name, plan, nil, leaving, p.SetNominated)
	}
	return undecided
}

// interesting returns the pools that have, or may have, devices for a task.
func interesting(ctx context.Context, task *allocator.Task, pools []*inventory.NodePool) []*inventory.NodePool {
	return slices.DeleteFunc(slices.Clone(pools), func(pool *inventory.NodePool) bool { return !task.Interested(ctx, pool) })
}

// NominationsOf returns the nominations of a group's pods, nil if they have none, and whether victims of any of them are still leaving.
func (p *NominatedDevices) NominationsOf(members []*v1.Pod) (result *fwk.PodGroupPostFilterResult, leaving bool) {
	infos := make(map[types.NamespacedName]*fwk.NominatingInfo)
	for _, pod := range members {
		if nomination := p.Of(pod.UID); nomination != nil {
			leaving = leaving || len(p.Holders.Leaving(nomination)) > 0
			infos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nomination.Node}
		}
	}
	if len(infos) == 0 {
		return nil, false
	}
	return &fwk.PodGroupPostFilterResult{NominatingInfos: infos}, leaving
}

// Ended returns those uses that nominated pods await whose pods have all ended by now. What Reclaimable caches may be a moment older: the
// scheduler may learn of the end of a pod before the plugin does.
func (p *NominatedDevices) Ended(nominated []*v1.Pod) (ended []ledger.Use) {
	known := make(map[types.UID]bool)
	for _, pod := range nominated {
		nomination := p.Of(pod.UID)
		if nomination == nil {
			continue
		}
		for _, claim := range nomination.Awaited {
			if known[claim.UID] {
				continue
			}
			known[claim.UID] = true
			if use := p.Holders.Ledger.UseOf(claim.UID); use.Allocation != nil && p.Holders.stateOf(claim.UID, math.MaxInt32).keeping == ending {
				ended = append(ended, use)
			}
		}
	}
	return ended
}

// ByUID returns the pods as a map by UID.
func ByUID(pods []*v1.Pod) map[types.UID]*v1.Pod {
	result := make(map[types.UID]*v1.Pod, len(pods))
	for _, pod := range pods {
		result[pod.UID] = pod
	}
	return result
}
