package quartermaster

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// groupDryRun is a world without pods of lower priority, in which kube-scheduler tries a PodGroup as a whole. It takes
// pods out of its snapshot for that, tells no plugin, and runs all phases from PreFilter to Reserve: so what is not in
// the snapshot any more is gone, and what Reserve plans goes into no ledger. Only the scheduling goroutine touches it.
type groupDryRun struct {
	// before are the pods that were on nodes when it began, and gone those that were taken out when the group was
	// tried, by UID; nil before that.
	before, gone map[types.UID]*v1.Pod
	// members are the states of the group's pods, and worlds what has been taken away for each of them.
	members map[types.UID]*cycle
	worlds  map[types.UID]*whatIf
	// plans has what is reserved for the group's pods.
	plans map[types.UID][]ledger.Use
}

// onNodes returns the pods in the scheduler's snapshot.
func (pl *Quartermaster) onNodes() (map[types.UID]*v1.Pod, error) {
	infos, err := pl.handle.MutableSnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	pods := make(map[types.UID]*v1.Pod)
	for _, info := range infos {
		for _, pod := range info.GetPods() {
			pods[pod.GetPod().UID] = pod.GetPod()
		}
	}
	return pods, nil
}

// enter begins the attempt of a member in the world of a dry run.
func (d *groupDryRun) enter(pl *Quartermaster, cs fwk.CycleState, c *cycle, pod *v1.Pod) error {
	if d.gone == nil {
		left, err := pl.onNodes()
		if err != nil {
			return err
		}
		d.gone = maps.Clone(d.before)
		maps.DeleteFunc(d.gone, func(uid types.UID, _ *v1.Pod) bool { return left[uid] != nil })
	}
	w := &whatIf{gone: maps.Clone(d.gone), group: d, member: pod.UID}
	c.dryRun = d
	d.members[pod.UID], d.worlds[pod.UID] = c, w
	cs.Write(whatIfKey, w)
	return nil
}

// planned returns what is reserved for members other than one of them.
func (d *groupDryRun) planned(except types.UID) (uses []ledger.Use) {
	for member, plan := range d.plans {
		if member != except {
			uses = append(uses, plan...)
		}
	}
	return uses
}

// allocation returns what is reserved for a claim of the group, nil if nothing is.
func (d *groupDryRun) allocation(claim types.UID) *resourceapi.AllocationResult {
	for _, plan := range d.plans {
		for i := range plan {
			if plan[i].Claim.UID == claim {
				return plan[i].Allocation
			}
		}
	}
	return nil
}

// reserveWhatIf is Reserve in the world of a dry run.
func (pl *Quartermaster) reserveWhatIf(ctx context.Context, c *cycle, w *whatIf, nodeName string) *fwk.Status {
	if err := c.chooseExtended(nodeName); err != nil {
		return failed(err)
	}
	if c.task == nil {
		return nil
	}
	node, err := pl.nodes.Get(nodeName)
	if err != nil {
		return failed(fmt.Errorf("look for devices on node %s: %w", nodeName, err))
	}
	site := pl.valuedView(c, node)
	site.Usage = pl.usageIn(c, w)
	plan := planOn(pl.dryRunContext(ctx, c), c.task, c.open(), site)
	if plan == nil {
		return fwk.NewStatus(fwk.Unschedulable, "no devices without pods of lower priority on node "+nodeName)
	}
	w.group.plans[w.member] = plan
	return nil
}

// planOn returns what claims are to get on a site, nil if there are no devices for them.
func planOn(ctx context.Context, task *allocator.Task, claims []*resourceapi.ResourceClaim, site allocator.Site) []ledger.Use {
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

// unreserveWhatIf is Unreserve in the world of a dry run.
func (c *cycle) unreserveWhatIf(member types.UID) {
	delete(c.dryRun.plans, member)
	c.leaveExtended()
}

// preemptForGroup has kube-scheduler look for pods of lower priority that have to go for a group, and evicts them. What
// they give up is kept for the group's pods.
func (pl *Quartermaster) preemptForGroup(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	if !pl.preemption.Enabled() {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if pl.awaitReleaseForGroup(state, info) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no pods are evicted: devices become free as soon as claims of pods that have ended are deallocated")
	}
	if waiting := pl.groupWaits(info); waiting != nil {
		return waiting, fwk.NewStatus(fwk.Success, "waiting for evicted pods to end, whose devices the group gets")
	}
	before, err := pl.onNodes()
	if err != nil {
		return nil, failed(err)
	}
	pl.groupDryRun = &groupDryRun{
		before: before, members: make(map[types.UID]*cycle), worlds: make(map[types.UID]*whatIf), plans: make(map[types.UID][]ledger.Use),
	}
	defer func() { pl.groupDryRun = nil }()
	result, status := pl.preemption.PodGroupPostFilter(ctx, state, info, schedule)
	if status.IsSuccess() && result != nil {
		pl.nominateGroup(ctx, info, result)
	}
	if status.Code() == fwk.Unschedulable {
		// DefaultPreemption, whose turn would be next, would find no more.
		return result, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Reasons()...)
	}
	return result, status
}

// awaitReleaseForGroup is awaitRelease for the pods of a group. It reports whether there is anything to wait for.
func (pl *Quartermaster) awaitReleaseForGroup(state fwk.PodGroupCycleState, info fwk.PodGroupInfo) (waits bool) {
	group, err := groupCycleIn(state)
	if err != nil || group == nil {
		return false
	}
	for _, pod := range info.GetUnscheduledPods() {
		if c := group.Member(pod.UID); c != nil && c.awaitsRelease.Load() {
			pl.awaitRelease(c, pod)
			pl.waker.WakeAfterPause(c.pod)
			waits = true
		}
	}
	return waits
}

// groupWaits returns the nominations of a group for which pods were evicted that have not ended yet, nil if there are none.
func (pl *Quartermaster) groupWaits(info fwk.PodGroupInfo) *fwk.PodGroupPostFilterResult {
	waits := false
	infos := make(map[types.NamespacedName]*fwk.NominatingInfo)
	for _, pod := range info.GetUnscheduledPods() {
		nomination := pl.state.nominations.Of(pod.UID)
		if nomination == nil {
			continue
		}
		waits = waits || len(pl.holders.Leaving(nomination)) > 0
		infos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nomination.Node}
	}
	if !waits {
		return nil
	}
	return &fwk.PodGroupPostFilterResult{NominatingInfos: infos}
}

// nominateGroup keeps for each pod of a group what it is to get on the node that it is nominated for.
func (pl *Quartermaster) nominateGroup(ctx context.Context, info fwk.PodGroupInfo, result *fwk.PodGroupPostFilterResult) {
	d := pl.groupDryRun
	clear(d.plans)
	for _, pod := range info.GetUnscheduledPods() {
		nominating := result.NominatingInfos[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
		c, w := d.members[pod.UID], d.worlds[pod.UID]
		if nominating == nil || nominating.NominatedNodeName == "" || c == nil {
			continue
		}
		w.usage = nil
		if status := pl.reserveWhatIf(ctx, c, w, nominating.NominatedNodeName); !status.IsSuccess() {
			continue // It is as if nothing was kept for it.
		}
		c.leaveExtended()
		victims := make([]*v1.Pod, 0, len(w.gone))
		for _, victim := range w.gone {
			victims = append(victims, victim)
		}
		pl.setNomination(&preemption.Nomination{
			Pod: pod.UID, Group: preemption.GroupOf(pod), Priority: pl.holders.Priority(pod),
			Node: nominating.NominatedNodeName, Plan: d.plans[pod.UID], Victims: victims,
		})
	}
}
