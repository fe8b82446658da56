package quartermaster

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// A groupCycle is the plugin's state of one attempt to schedule the pods of a PodGroup together.
type groupCycle = workload.Attempt[*cycle]

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
	data, err := state.Read(cycleKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	group, ok := data.(*groupCycle)
	if !ok {
		return nil, errors.New("the pod group cycle state of plugin " + Name + " was replaced by something else")
	}
	return group, nil
}

// plannedFor returns the planned allocation of a claim without an allocation, and whether the pod can use it: only
// members of the group for which this attempt planned it can.
func (pl *Quartermaster) plannedFor(pod *v1.Pod, claim types.UID, group *groupCycle) (planned *resourceapi.AllocationResult, usable bool) {
	inFlight := pl.state.Ledger.InFlight(claim)
	switch {
	case inFlight == nil && pl.groupRun != nil:
		return pl.groupRun.Allocation(claim), true
	case inFlight == nil:
		return nil, true
	}
	if seat := pl.state.gangs.Seat(pod.UID); seat != nil && seat.Allocations[claim] != nil {
		return inFlight, true
	}
	return inFlight, group != nil && group.Planned(claim, inFlight)
}

// wantsShared records that the pod needs the shared claims that are planned for its group. If the group does not fit,
// these plans are dropped, and free devices may help the pod.
func (pl *Quartermaster) wantsShared(c *cycle) {
	var missing []*resourceapi.ResourceClaim
	shared := false
	for _, podClaim := range c.claims {
		if !podClaim.IsAllocated() {
			missing = append(missing, podClaim.Object)
			shared = shared || podClaim.Shared != nil
		}
	}
	if c.extended != nil && c.leftOver == nil && c.extended.Full().Claim != nil {
		missing = append(missing, c.extended.Full().Claim)
	}
	if shared {
		c.pod.Wants(missing, pl.solver.Prepare(missing))
	}
}

// keepForGroup remembers the plan reserved for a pod, so that the pod gets the same again, and lets other members of
// its group use it.
func (c *cycle) keepForGroup(group *groupCycle, node string, plan []resourceapi.AllocationResult) {
	if plan != nil {
		c.setPlan(node, plan)
	}
	for _, podClaim := range c.claims {
		if podClaim.Plan() != nil {
			group.Plan(podClaim.Object.UID, podClaim.Plan())
		}
	}
}

// forgetForGroup must be called after the pod's Unreserve: it removes the plans of claims without users.
func (pl *Quartermaster) forgetForGroup(group *groupCycle, c *cycle) {
	for _, podClaim := range c.claims {
		if pl.state.Ledger.InFlight(podClaim.Object.UID) == nil {
			group.Unplan(podClaim.Object.UID)
		}
	}
}

// setPlan stores the task's allocations on a node.
func (c *cycle) setPlan(node string, plan []resourceapi.AllocationResult) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.plans == nil {
		c.plans = make(map[string][]resourceapi.AllocationResult)
	}
	c.plans[node] = plan
}

// errUndoing is the reason why a pod cannot use a claim of its group for now.
var errUndoing = errors.New("what an earlier attempt wrote into the claim could not be undone yet; " +
	"waiting for the API server to accept that")

// reserveShared completes Reserve besides the pod's own plan. It joins the pod to the plans for claims that it shares
// with others of its group. Once the group as a whole is known to fit, it also joins the pod to the users of the
// group's claims.
func (pl *Quartermaster) reserveShared(cs fwk.CycleState, c *cycle, pod *v1.Pod) *fwk.Status {
	if pl.features.EnableGenericWorkload && podclaims.PodGroupName(pod) != "" && !pl.waiting.Exists(pod) {
		// The scheduler would keep the pod and its devices until the time for completing a gang has passed: it does not
		// notice the deletion of a pod that has not begun to wait.
		return failed(errors.New("the pod was deleted or bound while its group was being scheduled"))
	}
	for _, podClaim := range c.claims {
		if podClaim.Group != nil && !cs.IsPodGroupSchedulingCycle() && !pl.groups.Join(podClaim.Object.UID, pod.UID) {
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

// setGroups determines which of the pod's claims are reserved for its PodGroup. It fails if that is unknown, or if such
// a claim cannot be used for now.
func (pl *Quartermaster) setGroups(pod *v1.Pod, claims []*podClaim) error {
	name := podclaims.PodGroupName(pod)
	if !pl.features.EnableDRAWorkloadResourceClaims || name == "" {
		return nil
	}
	podGroup, err := pl.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, name)
	if err != nil {
		return fmt.Errorf("find out which claims of the pod belong to PodGroup %s/%s: %w; waiting for the PodGroup to be created", pod.Namespace, name, err)
	}
	references, err := podclaims.PodGroupReferences(pod, podGroup)
	if err != nil {
		return err
	}
	for _, podClaim := range claims {
		reference, ofGroup := references[podClaim.Object.Name]
		if !ofGroup {
			continue
		}
		if pl.groups.IsReleasing(podClaim.Object.UID) {
			return fmt.Errorf("claim %s of PodGroup %s: %w", klog.KObj(podClaim.Object), name, errUndoing)
		}
		podClaim.Group = &reference
	}
	return nil
}
