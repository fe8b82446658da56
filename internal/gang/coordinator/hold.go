package coordinator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// hold puts all planned claims of a gang in flight, or none if any of their devices is taken by now. It keeps the other
// resources for the pods by nominating them, in memory.
func (c *Conductor) hold(group *Group, seats []*Seat) error {
	for i, seat := range seats {
		for _, claim := range seat.Claims {
			if err := c.Ledger.AddInFlight(ledger.RefTo(claim), group.UID, seat.Allocations[claim.UID]); err != nil {
				c.release(group.UID, seats[:i+1])
				return fmt.Errorf("keep the devices that are planned for pod %s: %w; trying again", seat.Pod.Name, err)
			}
		}
	}
	for _, seat := range seats {
		c.mutex.Lock()
		c.held[seat] = group.UID
		c.mutex.Unlock()
		c.nominate(seat)
	}
	return nil
}

// release ends the in-flight claims of some seats in the name of their group. Claims of pods that are being bound stay in
// flight in the pods' own names.
func (c *Conductor) release(group types.UID, seats []*Seat) {
	var freed ledger.Freed
	for _, seat := range seats {
		for _, claim := range seat.Claims {
			if c.roster.Uses(seat.Gang, claim.UID) {
				continue // Other pods with a seat share it.
			}
			freed = freed.And(c.Ledger.RemoveInFlight(claim.UID, group))
		}
	}
	if len(freed) > 0 {
		c.Freed(freed)
	}
}

// HandOver ends what is in flight in the gang's name for a claim that must still be created for a pod, because the claim is
// in flight in the pod's own name now. The claim gets another UID when it is created, and no other pod uses it.
func (c *Conductor) HandOver(cs fwk.CycleState, claim types.UID) {
	c.mutex.Lock()
	group, held := c.held[SeatIn(cs)]
	c.mutex.Unlock()
	if held {
		c.Ledger.RemoveInFlight(claim, group) // This frees nothing: the claim stays in flight in the pod's name.
	}
}

// end releases the devices that are held for a seat.
func (c *Conductor) end(seat *Seat) {
	c.mutex.Lock()
	group, held := c.held[seat]
	delete(c.held, seat)
	c.mutex.Unlock()
	if held {
		c.release(group, []*Seat{seat})
	}
}
