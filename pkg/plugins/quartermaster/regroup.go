package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// regrouping is a plan for all pods of a group that are to be on a node, made because one
// more of them found no devices there, see podgroup.PlanTogether. The pods stay on the node, only their devices change.
type regrouping struct {
	// members are those whose devices change, in the order in which they were reserved.
	members []*cycle
	// plans has what each of the members gets, and the last one what the new pod gets.
	plans [][]resourceapi.AllocationResult
}

// regroup looks for devices for the pod together with those of its group that are to be
// on the node. It returns nil if there are none, or if that cannot be told.
func (pl *Quartermaster) regroup(ctx context.Context, c *cycle, node *v1.Node) *regrouping {
	if c.group == nil || c.task == nil {
		return nil
	}
	r := &regrouping{members: pl.movable(c.group, node.Name)}
	if len(r.members) == 0 {
		return nil
	}
	var claims [][]*resourceapi.ResourceClaim
	for _, member := range r.members {
		claims = append(claims, member.open())
	}
	r.plans = podgroup.PlanTogether(pl.filterContext(ctx, c), pl.solver, pl.valuedView(c, node), append(claims, c.open()))
	if r.plans == nil {
		return nil
	}
	return r
}

// movable returns the members of the group that are reserved for the node and of whose
// planned claims nobody else makes use.
func (pl *Quartermaster) movable(group *groupCycle, node string) []*cycle {
	var members []*cycle
	for _, uid := range group.Reserved() {
		member := group.Member(uid)
		if member == nil || member.task == nil || member.extended != nil || member.reservedOn != node {
			continue // What is needed for extended resources is another thing on each node.
		}
		alone := true
		for _, podClaim := range member.unallocated() {
			alone = alone && len(pl.state.Ledger.InFlightUsers(podClaim.Object.UID)) == 1
		}
		if alone {
			members = append(members, member)
		}
	}
	return members
}

// carryOut changes what is in flight for the members, and leaves it to the caller to
// reserve the last plan. If something has changed since, everything stays as it was.
func (r *regrouping) carryOut(pl *Quartermaster, group *groupCycle, node string) *fwk.Status {
	freed := r.land(pl)
	defer func() { pl.state.Landed("", freed) }() // Once it is known what the members have instead.
	for i, member := range r.members {
		if err := member.fly(r.plans[i]); err != nil {
			freed = freed.And(r.rollBack(pl, node))
			return failed(err)
		}
	}
	for i, member := range r.members {
		member.keepForGroup(group, node, r.plans[i])
	}
	return nil
}

// fly puts a plan for a member of a group in flight.
func (c *cycle) fly(plan []resourceapi.AllocationResult) error {
	for i, podClaim := range c.unallocated() {
		if err := c.attempt.PutInFlight(&podClaim.Claim, &plan[i]); err != nil {
			return err
		}
	}
	return nil
}

// rollBack puts the members' plans of before in flight again. What somebody else holds by
// now is missed when the member is reserved for good.
func (r *regrouping) rollBack(pl *Quartermaster, node string) ledger.Freed {
	freed := r.land(pl)
	for _, member := range r.members {
		_ = member.fly(member.plans[node])
	}
	return freed
}

// land ends what is in flight for the members.
func (r *regrouping) land(pl *Quartermaster) (freed ledger.Freed) {
	for _, member := range r.members {
		for _, podClaim := range member.unallocated() {
			freed = freed.And(pl.state.Ledger.RemoveInFlight(podClaim.Object.UID, member.uid))
		}
	}
	return freed
}

// setRegrouping remembers what would have to change for the pod to be on a node.
func (c *cycle) setRegrouping(node string, r *regrouping) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.regroupings == nil {
		c.regroupings = make(map[string]*regrouping)
	}
	c.regroupings[node] = r
}

// scoreRegrouping prefers nodes where the others of the group can keep their devices.
func (c *cycle) scoreRegrouping(node string) int64 {
	if c.regroupings[node] != nil {
		return 0
	}
	return 1
}
