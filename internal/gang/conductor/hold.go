package conductor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// hold puts all that is planned for a gang in flight, or nothing if somebody else has some of it by now. What pods need
// besides devices is kept for them by nominating them, in memory.
func (c *Conductor) hold(group *Group, seats []*roster.Seat) error {
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

// release ends what is in flight in the name of a group for some seats. Pods that are being bound have their claims in
// flight in their own name as well.
func (c *Conductor) release(group types.UID, seats []*roster.Seat) {
	var freed ledger.Freed
	for _, seat := range seats {
		for _, claim := range seat.Claims {
			if c.roster.Uses(seat.Gang, claim.UID) {
				continue // Others with a seat share it.
			}
			freed = freed.And(c.Ledger.RemoveInFlight(claim.UID, group))
		}
	}
	if len(freed) > 0 {
		c.Freed(freed)
	}
}

// HandOver ends what is in flight in the name of the gang for a claim that is to be made for a pod, because it is in flight
// in the pod's own name now: the claim gets another UID when it is made, and no other pod uses it.
func (c *Conductor) HandOver(cs fwk.CycleState, claim types.UID) {
	c.mutex.Lock()
	group, held := c.held[SeatIn(cs)]
	c.mutex.Unlock()
	if held {
		c.Ledger.RemoveInFlight(claim, group) // Nothing becomes free by that.
	}
}

// end ends what is kept for a seat.
func (c *Conductor) end(seat *roster.Seat) {
	c.mutex.Lock()
	group, held := c.held[seat]
	delete(c.held, seat)
	c.mutex.Unlock()
	if held {
		c.release(group, []*roster.Seat{seat})
	}
}
