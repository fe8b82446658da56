package quartermaster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// A groupCycle is the plugin's state of one attempt to schedule the pods of a PodGroup together.
type groupCycle = workload.Attempt[*cycle]

// cycleGang is the part of a cycle about the PodGroup of the API with which the pod is tried.
type cycleGang struct {
	// group is the state of the pod's group while the group is tried as a whole, else nil. uid is the pod's UID.
	group *groupCycle
	uid   types.UID
	// place is the part of the cluster in which the pod's group is tried.
	place workload.Place
}

// groupCycleOf returns the state of the pod's group, nil unless the scheduler is trying the group as a whole.
func (pl *Quartermaster) groupCycleOf(cs fwk.CycleState) (*groupCycle, error) {
	if !pl.features.EnableGenericWorkload {
		return nil, nil
	}
	state := kube.PodGroupCycleState(cs)
	if state == nil {
		return nil, nil
	}
	group, err := groupCycleIn(state)
	if err == nil && group == nil {
		group = workload.NewAttempt[*cycle]()
		state.Write(cycleKey, group)
	}
	return group, err
}

// groupCycleIn returns the state that groupCycleOf has stored, nil if there is none.
func groupCycleIn(state fwk.PodGroupCycleState) (*groupCycle, error) {
	return kube.Stored[*groupCycle](state, cycleKey)
}

// joinGroup is PreFilter's step for the pods of a PodGroup of the API that is tried as a whole. The first of them plans
// for all, unless a domain is given: then the question is whether the pods fit there.
func (pl *Quartermaster) joinGroup(ctx context.Context, cs fwk.CycleState, c *cycle, pod *v1.Pod, nodes []fwk.NodeInfo) error {
	group, err := pl.groupCycleOf(cs)
	if err != nil || group == nil {
		return err
	}
	c.group, c.uid = group, pod.UID
	group.SetMember(pod.UID, c)
	c.place = workload.Current(pl.handle.SnapshotSharedLister(), cs)
	if c.dryRun == nil && c.place == (workload.Place{}) {
		pl.planGroup(ctx, group, pod, nodes)
	}
	return nil
}

// planGroup plans nodes and devices for all pods of a PodGroup of the API (KEP-4671) together when the first of them is
// tried: kube-scheduler itself takes the pods one after the other, and never revisits a pod that has a node. Without a
// plan the pods are tried one after the other, and each reports what it lacks.
func (pl *Quartermaster) planGroup(ctx context.Context, group *groupCycle, pod *v1.Pod, nodes []fwk.NodeInfo) {
	name := dra.PodGroupName(pod)
	if name == "" || !group.BeginPlan() {
		return
	}
	logger := klog.FromContext(ctx)
	state, err := pl.handle.PodGroupManager().PodGroupStates().Get(pod.Namespace, name)
	if err != nil {
		logger.V(4).Info("Cannot plan a PodGroup, trying one pod after the other", "podGroup", klog.KRef(pod.Namespace, name), "err", err)
		return
	}
	podGroup, err := pl.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, name)
	if err != nil {
		return
	}
	pods := slices.Collect(maps.Values(state.UnscheduledPods()))
	if len(pods) < 2 {
		return
	}
	slices.SortFunc(pods, podutil.Older)
	key := pod.Namespace + "/" + name
	if !pl.state.groupPlans.May(key, func() bool { return pl.tryAgain(pods) }) {
		logger.V(4).Info("A PodGroup was planned in vain lately, trying one pod after the other", "podGroup", klog.KRef(pod.Namespace, name))
		return
	}
	need := 1
	if gang := podGroup.Spec.SchedulingPolicy.Gang; gang != nil {
		need = max(need, int(gang.MinCount)-state.ScheduledPodsCount())
	}
	began := time.Now()
	out, err := pl.planPods(ctx, nodes, planning.Gang{Name: key, Pods: pods, Need: need, AnyOrder: true}, nil)
	pl.state.groupPlans.Planned(key, time.Since(began), err != nil || out.Plan == nil)
	if err != nil || out.Plan == nil {
		logger.V(4).Info("No plan for a PodGroup, trying one pod after the other", "podGroup", klog.KRef(pod.Namespace, name), "err", err)
		return
	}
	group.Plans(out.Assignments(name))
}

// tryAgain has those of the pods tried again that still wait. It returns false if there are none.
func (pl *Quartermaster) tryAgain(pods []*v1.Pod) bool {
	lister := pl.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	waiting := make(map[string]*v1.Pod, len(pods))
	for _, pod := range pods {
		if known, err := lister.Pods(pod.Namespace).Get(pod.Name); err == nil && known.UID == pod.UID && known.Spec.NodeName == "" {
			waiting[pod.Namespace+"/"+pod.Name] = known
		}
	}
	if len(waiting) > 0 {
		pl.handle.Activate(klog.Background(), waiting)
	}
	return len(waiting) > 0
}

// groupAssignment returns the assignment of a pod in the plan for its PodGroup, nil if it has none.
func (c *cycleGang) groupAssignment() *planning.Assignment {
	if c.group == nil || c.place != (workload.Place{}) {
		return nil
	}
	return c.group.Assignment(c.uid)
}

// keptForMembers returns the allocations planned for members of the pod's group that kube-scheduler tries later, if the plan for the
// group leaves the pod out.
func (pl *Quartermaster) keptForMembers(c *cycle) (uses []ledger.Use) {
	if c.group == nil || c.dryRun != nil || c.place != (workload.Place{}) {
		return nil
	}
	for _, assignment := range c.group.PlannedForOthers(c.uid) {
		var planned []ledger.Use
		for _, claim := range assignment.Claims {
			if allocation := assignment.Allocations[claim.UID]; allocation != nil {
				planned = append(planned, ledger.Use{Claim: ledger.RefTo(claim), Allocation: allocation})
			}
		}
		uses = append(uses, pl.nominated.Open(assignment.Pod.UID, planned)...)
	}
	return uses
}

// errUndoing is the reason why a pod cannot use a claim of its group for now.
var errUndoing = errors.New("what an earlier attempt wrote into the claim could not be undone yet; " +
	"waiting for the API server to accept that")

// reserveShared completes Reserve besides the pod's own plan. It joins the pod to the plans for claims that it shares
// with others of its group. Once the group as a whole is known to fit, it also joins the pod to the users of the
// group's claims.
func (pl *Quartermaster) reserveShared(cs fwk.CycleState, c *cycle, pod *v1.Pod) *fwk.Status {
	if pl.features.EnableGenericWorkload && dra.PodGroupName(pod) != "" && !pl.waiting.Exists(pod) {
		// The scheduler would keep the pod and its devices until the time for completing a gang has passed: it does not
		// notice the deletion of a pod that has not begun to wait.
		return failed(errors.New("the pod was deleted or bound while its group was being scheduled"))
	}
	for _, podClaim := range c.claims {
		if podClaim.Group != nil && !kube.InPodGroupCycle(cs) && !pl.groups.Join(podClaim.Object.UID, pod.UID) {
			return failed(fmt.Errorf("reserve claim %s for %s: %w", klog.KObj(podClaim.Object), podClaim.Group.Name, errUndoing))
		}
		if podClaim.Shared == nil {
			continue
		}
		if err := c.attempt.PutInFlight(&podClaim.Claim, podClaim.Shared); err != nil {
			return failed(err)
		}
		c.attempt.Signal(&podClaim.Claim)
		if podClaim.Origin == commit.ToMake {
			pl.state.gangs.HandOver(cs, podClaim.Object.UID)
		}
	}
	return nil
}
