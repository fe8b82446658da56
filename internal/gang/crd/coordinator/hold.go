package coordinator

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// hold puts all planned claims of a gang in flight, or none if any of their devices is taken by now. It keeps the other
// resources for the pods by nominating them, in memory.
func (c *Coordinator) hold(group *Group, assignments []*planning.Assignment) error {
	for i, assignment := range assignments {
		for _, claim := range assignment.Claims {
			if err := c.Ledger.AddInFlight(ledger.RefTo(claim), group.UID, assignment.Allocations[claim.UID]); err != nil {
				c.release(group.UID, assignments[:i+1])
				return fmt.Errorf("keep the devices that are planned for pod %s: %w; trying again", assignment.Pod.Name, err)
			}
		}
	}
	for _, assignment := range assignments {
		c.mutex.Lock()
		c.held[assignment] = group.UID
		c.mutex.Unlock()
		c.nominate(assignment)
	}
	return nil
}

// release ends the in-flight claims of some assignments in the name of their group. Claims of pods that are being bound stay in
// flight in the pods' own names.
func (c *Coordinator) release(group types.UID, assignments []*planning.Assignment) {
	var freed ledger.Freed
	var ended []ledger.ClaimRef
	for _, assignment := range assignments {
		for _, claim := range assignment.Claims {
			ref, users := ledger.RefTo(claim), c.Ledger.UseOf(claim.UID).InFlight
			if !slices.Contains(users, group) || c.progress.Uses(assignment.Gang, claim.UID) {
				continue // It never was in flight, or other pods with an assignment share it.
			}
			freed, ended = freed.And(c.Ledger.RemoveInFlight(claim.UID, group)), append(ended, ref)
		}
	}
	if len(freed) > 0 {
		c.Waker.Freed(freed)
	}
	c.Waker.GivenUp(ended)
}

// HandOver ends what is in flight in the gang's name for a claim that must still be created for a pod, because the claim is
// in flight in the pod's own name now. The claim gets another UID when it is created, and no other pod uses it.
func (c *Coordinator) HandOver(cs fwk.CycleState, claim types.UID) {
	c.mutex.Lock()
	group, held := c.held[AssignmentIn(cs)]
	c.mutex.Unlock()
	if held {
		c.Ledger.RemoveInFlight(claim, group) // This frees nothing: the claim stays in flight in the pod's name.
	}
}

// end releases the devices that are held for an assignment.
func (c *Coordinator) end(assignment *planning.Assignment) {
	c.mutex.Lock()
	group, held := c.held[assignment]
	delete(c.held, assignment)
	c.mutex.Unlock()
	if held {
		c.release(group, []*planning.Assignment{assignment})
	}
}
