package quartermaster

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// cycleClaims is the part of a cycle about the claims of the pod, and the task that allocates them.
type cycleClaims struct {
	// claims are the distinct claims of the pod, in the order of pod.spec.resourceClaims.
	claims []*podClaim
	// task allocates the claims without an allocation; nil if there are none.
	task *allocator.Task
	// needs looks up the claims and extended resources of the pod.
	needs *eligibility.Needs
	// extended is nil unless a device class stands for resources that the pod requests. If extended is set, the task
	// depends on the node, and is nil before Reserve.
	extended *extended.Demand
	// made is the claim for the extended resources that an earlier attempt has left, or that is in flight for the
	// pod's gang; nil if there is none. It is also in claims.
	made *podClaim
	// legacy holds the claims that controllers of their drivers allocate; nil if there are none. They are not in
	// claims.
	legacy *classicdra.Attempt
	// asksDrivers is set if the attempt ends because the pod has to wait for the drivers' controllers.
	asksDrivers bool
	// attempt commits the claims; it is set from Reserve on.
	attempt *commit.Attempt
	// failed is the number of times that devices failed to get ready for the pod, nil if none has failed.
	failed map[binding.Device]int
}

// A podClaim is one claim of the pod.
type podClaim = eligibility.Claim

// unallocated returns the claims that the task allocates.
func (c *cycleClaims) unallocated() []*podClaim { return eligibility.Open(c.claims) }

// open returns the claim objects that the task allocates.
func (c *cycleClaims) open() []*resourceapi.ResourceClaim {
	return eligibility.Objects(c.unallocated())
}

// usualTask returns the task for most nodes.
func (c *cycleClaims) usualTask() *allocator.Task {
	if c.extended != nil {
		return c.extended.Full().Task
	}
	return c.task
}

// findClaims is PreFilter's step to look up the claims of a pod. The status is Skip if the pod needs no devices.
func findClaims(cs fwk.CycleState, c *cycle) ([]*resourceapi.ResourceClaim, *fwk.Status) {
	claims, err := c.needs.Claims()
	if err != nil {
		c.pod.Causes.Note(reasons.ClaimMissing)
		return nil, unschedulable("%v", err)
	}
	if c.needs.Backed() {
		return claims, nil
	}
	if err := c.needs.Recorded(); err != nil {
		c.pod.Causes.Note(reasons.ClassMissing)
		return nil, unschedulable("%v", err)
	}
	if len(claims) == 0 {
		noteUnbacked(cs, c.needs.Resources)
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return claims, nil
}

// conflictInterval is the interval between attempts of a pod whose claim has lost a conflict and is in use, or has devices that are held
// for others. No event of that claim says that this has ended.
const conflictInterval = 30 * time.Second

// checkClaims is PreFilter's step for claims that exist. It adds those to the cycle that Quartermaster allocates, and
// leaves the others to the controllers of their drivers.
func (pl *Quartermaster) checkClaims(c *cycle, pod *v1.Pod, claims []*resourceapi.ResourceClaim) (status *fwk.Status) {
	if claims, c.legacy, status = c.needs.Split(claims); status != nil {
		return status
	}
	for _, claim := range claims {
		if c.dryRun == nil { // Dry runs do not look for conflicts.
			if conflict := pl.commits.LostInUse(claim); conflict != nil {
				c.pod.Causes.Note(reasons.ClaimInUse)
				pl.waker.WakeIn(c.pod, conflictInterval)
				return unschedulable("%v: %v; a pod on a node uses the claim; waiting until one of the two is released", commit.ErrConflict, conflict)
			}
		}
		if h := pl.heldFromSharing(c, claim); h != nil {
			c.pod.Causes.Note(reasons.ClaimInUse)
			if c.dryRun == nil {
				pl.waker.WakeIn(c.pod, conflictInterval)
			}
			return unschedulable("the devices of claim %s are held for %s%s and this pod must leave them alone; give it a claim of its own or wait",
				claim.Name, h.For(pod.Namespace), h.Until(time.Now()))
		}
		podClaim, status := pl.checkClaim(pod, claim, c.group, c.dryRun)
		if status != nil {
			c.pod.Causes.Note(reasons.ClaimInUse)
			if pl.features.EnableDRANodeAllocatableResources {
				c.pod.HelpedByAnySlice() // The claim's devices may stop taking resources of the node.
			}
			return status
		}
		c.claims = append(c.claims, podClaim)
	}
	if err := pl.setGroups(pod, c.claims); err != nil {
		return unschedulable("%v", err)
	}
	return nil
}

// checkClaim checks whether the pod can use a claim on any node. group and dryRun are those of its attempt; nil if there
// are none.
func (pl *Quartermaster) checkClaim(pod *v1.Pod, claim *resourceapi.ResourceClaim, group *groupCycle, dryRun *preemption.DryRun) (*podClaim, *fwk.Status) {
	result, err := pl.rules(group, dryRun).Check(pod, claim)
	if err != nil {
		return nil, unschedulable("%v", err)
	}
	return result, nil
}

// rules returns the rules for claims in an attempt; group and dryRun are nil if there are none.
func (pl *Quartermaster) rules(group *groupCycle, dryRun *preemption.DryRun) *eligibility.Rules {
	return &eligibility.Rules{
		OfGroups:     pl.features.EnableDRAWorkloadResourceClaims,
		RefuseOfNode: pl.refusesOfNode(), Pools: pl.state.Pool,
		Server: pl.claims.Server, Legacy: pl.legacy, Attempt: checkedAttempt{pl, group, dryRun},
	}
}

// checkedAttempt implements eligibility.Attempt.
type checkedAttempt struct {
	*Quartermaster
	group  *groupCycle
	dryRun *preemption.DryRun
}

// Planned implements eligibility.Attempt. It returns the planned allocation of a claim without an allocation, and
// whether the pod can use it: only members of the group for which it is planned can. Members that were tried before may wait for this one
// to complete the gang, so that it must not wait for them.
func (a checkedAttempt) Planned(pod *v1.Pod, claim types.UID) (planned *resourceapi.AllocationResult, usable bool) {
	inFlight := a.state.Ledger.InFlight(claim)
	switch {
	case inFlight == nil && a.dryRun.Group() != nil:
		return a.dryRun.Group().Allocation(claim), true
	case inFlight == nil:
		return nil, true
	}
	if assignment := a.state.gangs.Assignment(pod.UID); assignment != nil && assignment.Allocations[claim] != nil {
		return inFlight, true
	}
	return inFlight, a.group != nil && a.isPlannedByMembers(pod, claim)
}

// isPlannedByMembers reports whether the allocation in flight for a claim is only for pods of the pod's PodGroup.
func (a checkedAttempt) isPlannedByMembers(pod *v1.Pod, claim types.UID) bool {
	users := a.state.Ledger.UseOf(claim).InFlight
	return len(users) > 0 && !slices.ContainsFunc(users, func(user types.UID) bool {
		entry := a.waiting.Get(user)
		if entry == nil {
			return true
		}
		other := entry.Latest()
		return other.Namespace != pod.Namespace || dra.PodGroupName(other) != dra.PodGroupName(pod)
	})
}

// BrokenBinding implements eligibility.Attempt. It returns why it is useless to wait (any longer) for the claim's
// devices; nil if it is not, or if the feature is off. It also remembers the failures of waits in other processes.
func (a checkedAttempt) BrokenBinding(pod *v1.Pod, claim *resourceapi.ResourceClaim) error {
	if !a.bindingConditions {
		return nil
	}
	err := a.devices.Broken(claim)
	if err != nil {
		a.failures.NoteUnknown(pod.UID, claim)
	}
	return err
}

// setGroups determines which of the pod's claims are reserved for its PodGroup. It fails if that is unknown, or if such
// a claim cannot be used for now.
func (pl *Quartermaster) setGroups(pod *v1.Pod, claims []*podClaim) error {
	name := dra.PodGroupName(pod)
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
