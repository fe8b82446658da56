package quartermaster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/queue/reasons"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// prepareTask is PreFilter's step for the claims without an allocation: it prepares the task that allocates them. For
// extended resources that is the task on most nodes.
func (pl *Quartermaster) prepareTask(c *cycle, pod *v1.Pod) *fwk.Status {
	if status := pl.checkRecorded(c, pod); status != nil {
		return status
	}
	c.failed = pl.failed(c.claims, pod)
	claims := c.open()
	switch {
	case c.extended != nil:
		c.extended.Prepare(claims, pl.solverFor(c).Prepare, pl.claims.Server.StoresExtendedResources())
		claims = c.extended.Full().Claims
	case len(claims) > 0:
		c.task = pl.solverFor(c).Prepare(claims)
	}
	task := c.usualTask()
	c.takesAlready = pl.accountant != nil && pl.accountant.TakesOfNode(c.decided()...)
	c.pod.Wants(claims, task)
	if c.extended != nil {
		c.pod.WantsExtended(c.extended.Full().Claim, c.made != nil || len(c.extended.StaleClaims()) > 0)
	}
	if task != nil {
		if err := task.Err(); err != nil {
			c.pod.Causes.Note(reasons.OfTask(err))
			return unschedulable("%v", err)
		}
		if c.scored = pl.features.EnableDRAPrioritizedList && task.HasAlternatives(); c.scored {
			c.found = make(map[string][]resourceapi.AllocationResult) // Some solutions may be better than others.
		}
	}
	pl.wantsShared(c)
	return nil
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
	if c.extended != nil && c.made == nil && c.extended.Full().Claim != nil {
		missing = append(missing, c.extended.Full().Claim)
	}
	if shared {
		c.pod.Wants(missing, pl.solver.Prepare(missing))
	}
}

// failed returns how often devices failed to get ready for any of these claims and pods, nil if none has failed.
func (pl *Quartermaster) failed(claims []*podClaim, pods ...*v1.Pod) map[binding.Device]int {
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	return pl.failures.Of(append(uids, eligibility.UIDs(claims)...)...)
}

// failedOn returns the failures in the form that a search needs, nil if there are none.
func (c *cycleClaims) failedOn() func(inventory.PoolID, string) int {
	if c.failed == nil {
		return nil
	}
	return func(pool inventory.PoolID, device string) int {
		return c.failed[binding.Device{Pool: pool, Name: device}]
	}
}

// hasFailedIn reports whether any of the pools has devices that failed for the pod.
func (c *cycleClaims) hasFailedIn(pools []*inventory.NodePool) bool {
	return c.failed != nil && slices.ContainsFunc(pools, func(pool *inventory.NodePool) bool {
		for device := range c.failed {
			if device.Pool == pool.ID {
				return true
			}
		}
		return false
	})
}
