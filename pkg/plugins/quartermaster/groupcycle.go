package quartermaster

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claimname"
)

// groupCycle is what the plugin knows about a PodGroup (KEP-4671) during one attempt to
// schedule its pods together.
//
// The scheduler takes one pod after the other from PreFilter to Reserve, with a state of
// the group at hand. Then it takes all that back, the last pod first. If the group fits,
// each pod is reserved once more, now without that state, and bound in a goroutine of its
// own, so that the first one may be bound before the last one is reserved again. What a
// pod was given the first time it gets again: others may rely on it.
//
// Only the scheduling goroutine touches it.
type groupCycle struct {
	// planned are the claims that this attempt has put in flight, by UID: other members
	// can use what is planned. For everybody else such a claim is being allocated.
	planned map[types.UID]*resourceapi.AllocationResult
	// members has the latest state of each pod that PreFilter was asked about.
	members map[types.UID]*cycle
	// reserved are the pods that are reserved, in that order.
	reserved []types.UID
}

// Clone implements fwk.StateData.
func (g *groupCycle) Clone() fwk.StateData { return g }

// groupCycleOf returns the state of the pod's group, nil unless the scheduler is just
// trying the group as a whole.
func (pl *Quartermaster) groupCycleOf(cs fwk.CycleState) (*groupCycle, error) {
	if !pl.features.EnableGenericWorkload {
		return nil, nil
	}
	state := cs.GetPodGroupSchedulingCycle()
	if state == nil {
		return nil, nil
	}
	group, err := groupCycleIn(state)
	if err == nil && group == nil {
		group = &groupCycle{planned: make(map[types.UID]*resourceapi.AllocationResult), members: make(map[types.UID]*cycle)}
		state.Write(cycleKey, group)
	}
	return group, err
}

// groupCycleIn returns what groupCycleOf has stored, nil if nothing was.
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

// checkPlanned is checkClaim for a claim without allocation: if one is in flight, only
// members of the group for which it was planned in this attempt can use the claim.
func (pl *Quartermaster) checkPlanned(result *podClaim, group *groupCycle) *fwk.Status {
	inFlight := pl.state.ledger.InFlight(result.claim.UID)
	if inFlight == nil {
		return nil
	}
	if group == nil || group.planned[result.claim.UID] != inFlight {
		return waiting("claim %s is being allocated for another pod; waiting for that to be done", claimname.Of(result.claim))
	}
	result.shared = inFlight
	if inFlight.NodeSelector == nil {
		return nil
	}
	nodes, err := nodeaffinity.NewNodeSelector(inFlight.NodeSelector)
	if err != nil {
		return waiting("claim %s: the node selector of what is planned for it cannot be parsed: %v", claimname.Of(result.claim), err)
	}
	result.nodes = nodes
	return nil
}

// wantsShared notes that the pod needs what is planned for others of its group. Nothing of
// that lasts if the group does not fit, and then it matters which devices there are.
func (pl *Quartermaster) wantsShared(c *cycle) {
	var missing []*resourceapi.ResourceClaim
	shared := false
	for _, podClaim := range c.claims {
		if !podClaim.allocated() {
			missing = append(missing, podClaim.claim)
			shared = shared || podClaim.shared != nil
		}
	}
	if c.extended != nil && c.leftOver == nil && c.extended.Full().Claim != nil {
		missing = append(missing, c.extended.Full().Claim)
	}
	if shared {
		c.pod.Wants(missing, pl.solver.Prepare(missing))
	}
}

// keep remembers what was reserved for a pod, so that it gets the same again, and lets
// other members of its group use it.
func (g *groupCycle) keep(c *cycle, node string, plan []resourceapi.AllocationResult) {
	c.reservedOn = node
	if !slices.Contains(g.reserved, c.uid) {
		g.reserved = append(g.reserved, c.uid)
	}
	if plan != nil {
		c.setPlan(node, plan)
	}
	for _, podClaim := range c.claims {
		if podClaim.planned != nil {
			g.planned[podClaim.claim.UID] = podClaim.planned
		}
	}
}

// forget is called after the pod's Unreserve: what has no users any more is not planned.
func (g *groupCycle) forget(pl *Quartermaster, c *cycle) {
	c.reservedOn = ""
	g.reserved = slices.DeleteFunc(g.reserved, func(uid types.UID) bool { return uid == c.uid })
	for _, podClaim := range c.claims {
		if pl.state.ledger.InFlight(podClaim.claim.UID) == nil {
			delete(g.planned, podClaim.claim.UID)
		}
	}
}

// setPlan stores what the task gets on a node.
func (c *cycle) setPlan(node string, plan []resourceapi.AllocationResult) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.plans == nil {
		c.plans = make(map[string][]resourceapi.AllocationResult)
	}
	c.plans[node] = plan
}

// podGroupName returns the name of the group that a pod belongs to, "" if it has none.
func podGroupName(pod *v1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}
