package coordinator

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Seat is the planned place of a pod of a gang. It is immutable.
type Seat struct {
	// Gang is "namespace/name" of the group.
	Gang string
	Pod  *v1.Pod
	Node string
	// Claims are the pod's claims that had no allocation, and Allocations their planned allocations, by UID.
	Claims      []*resourceapi.ResourceClaim
	Allocations map[types.UID]*resourceapi.AllocationResult
	// Made is the last of the claims if it does not exist yet: the claim for the pod's extended resources (KEP-5004).
	Made *resourceapi.ResourceClaim
	// After holds the pods that must be reserved before this one, because its place depends on them.
	After []types.UID
}

// PlanOf returns the planned allocations of claims, in their order; nil if any claim has none.
func (s *Seat) PlanOf(claims []*resourceapi.ResourceClaim) (plan []resourceapi.AllocationResult) {
	for _, claim := range claims {
		planned := s.Allocations[claim.UID]
		if planned == nil {
			return nil
		}
		plan = append(plan, *planned)
	}
	return plan
}

// Exchanged swaps the places of two pods that are alike (planning.Gang.AnyOrder), and returns their new seats.
func Exchanged(a, b *Seat) (*Seat, *Seat) { return a.with(b), b.with(a) }

// with returns a seat for the same pod with the other seat's place. It has no After: seats are exchanged when one of
// the pods is about to take its seat.
func (s *Seat) with(other *Seat) *Seat {
	seat := *s
	seat.Node, seat.After, seat.Allocations = other.Node, nil, make(map[types.UID]*resourceapi.AllocationResult, len(s.Claims))
	for i, claim := range s.Claims {
		seat.Allocations[claim.UID] = other.Allocations[other.Claims[i].UID]
	}
	return &seat
}

// A phase is the progress of a pod.
type phase int8

const (
	planned phase = iota
	reserved
	committed
	phases int = iota // A bound pod has no seat any more.
)

// A Roster holds the gangs whose plans are being carried out, of all profiles of a scheduler. The zero value is empty.
// It is safe for concurrent use.
type Roster struct {
	mutex sync.Mutex
	gangs map[string]*carried
	pods  map[types.UID]*carried
}

// A carried is a gang whose plan is being carried out.
type carried struct {
	name string
	// need is the number of seats that must be taken for the gang to run.
	need  int
	seats map[types.UID]*Seat
	at    map[types.UID]phase
	// count is the number of seats in each phase.
	count [phases]int
	// before holds, by pod, the seats whose After contains the pod.
	before map[types.UID][]*Seat
	// tries is the number of attempts that began with a seat, by pod.
	tries map[types.UID]int
	// settled is closed once it is decided whether the pods are bound. opened is set if they are.
	settled chan struct{}
	opened  bool
}

// Begin stores the plan of a gang; at least need of its seats must be taken. The gang must have no other plan.
func (r *Roster) Begin(gang string, need int, seats []*Seat) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.gangs == nil {
		r.gangs, r.pods = make(map[string]*carried), make(map[types.UID]*carried)
	}
	c := &carried{
		name: gang, need: need, seats: make(map[types.UID]*Seat), at: make(map[types.UID]phase),
		before: make(map[types.UID][]*Seat), tries: make(map[types.UID]int), settled: make(chan struct{}),
	}
	for _, seat := range seats {
		c.seats[seat.Pod.UID], c.at[seat.Pod.UID] = seat, planned
		c.count[planned]++
		r.pods[seat.Pod.UID] = c
		for _, first := range seat.After {
			c.before[first] = append(c.before[first], seat)
		}
	}
	r.gangs[gang] = c
}

// Of returns the seat of a pod, nil if it has none.
func (r *Roster) Of(pod types.UID) *Seat {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if c := r.pods[pod]; c != nil {
		return c.seats[pod]
	}
	return nil
}

// Uses reports whether any pod with a seat in the gang uses a claim.
func (r *Roster) Uses(gang string, claim types.UID) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil {
		return false
	}
	for _, seat := range c.seats {
		if _, uses := seat.Allocations[claim]; uses {
			return true
		}
	}
	return false
}

// Carried reports whether a plan for the gang is being carried out, and its number of seats.
func (r *Roster) Carried(gang string) (seats int, ok bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil {
		return 0, false
	}
	return len(c.seats), true
}

// Awaits returns the pods that must be reserved before a pod, and are not yet.
func (r *Roster) Awaits(pod types.UID) (pods []*v1.Pod) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.pods[pod]
	if c == nil {
		return nil
	}
	for _, other := range c.seats[pod].After {
		if at, there := c.at[other]; there && at == planned {
			pods = append(pods, c.seats[other].Pod)
		}
	}
	return pods
}

// Try counts an attempt that begins with a seat, and returns the number of attempts; 0 if the seat has ended.
func (r *Roster) Try(seat *Seat) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	if c == nil {
		return 0
	}
	c.tries[seat.Pod.UID]++
	return c.tries[seat.Pod.UID]
}

// Untry undoes Try for an attempt that was abandoned.
func (r *Roster) Untry(seat *Seat) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if c := r.of(seat); c != nil {
		c.tries[seat.Pod.UID]--
	}
}

// Reserve marks a pod as reserved. If all pods of its gang are reserved, it returns true and the other pods; otherwise
// it returns the pods that waited for this one to be reserved. It returns an error if the seat has ended.
func (r *Roster) Reserve(seat *Seat) (all bool, pods []*v1.Pod, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	if c == nil {
		return false, nil, errEnded(seat)
	}
	c.reach(seat, reserved)
	if c.all(reserved) {
		return true, c.except(seat), nil
	}
	for _, next := range c.before[seat.Pod.UID] {
		if c.seats[next.Pod.UID] == next {
			pods = append(pods, next.Pod)
		}
	}
	return false, pods, nil
}

// except returns the pods of all seats but the given one, which may be nil.
func (c *carried) except(seat *Seat) (pods []*v1.Pod) {
	for _, other := range c.seats {
		if other != seat {
			pods = append(pods, other.Pod)
		}
	}
	return pods
}

// of returns the gang of a seat, nil if the seat has ended: the pod may have another seat by now. The caller must hold
// the mutex.
func (r *Roster) of(seat *Seat) *carried {
	if c := r.pods[seat.Pod.UID]; c != nil && c.seats[seat.Pod.UID] == seat {
		return c
	}
	return nil
}

// reach moves a pod to a later phase.
func (c *carried) reach(seat *Seat, to phase) {
	if at := c.at[seat.Pod.UID]; at < to {
		c.at[seat.Pod.UID] = to
		c.count[at]--
		c.count[to]++
	}
}

func errEnded(seat *Seat) error {
	return fmt.Errorf("group %s: the plan for the group was given up because another of its pods could not be scheduled; all of them are planned again", seat.Gang)
}

// all reports whether all pods have reached a phase.
func (c *carried) all(to phase) bool {
	for _, count := range c.count[:to] {
		if count > 0 {
			return false
		}
	}
	return true
}

// Commit marks a pod as committed: all its claims are written. When the channel is closed, the pod may be bound, unless
// Verdict returns an error then. Commit returns an error if the seat has ended.
func (r *Roster) Commit(seat *Seat) (<-chan struct{}, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	if c == nil {
		return nil, errEnded(seat)
	}
	c.reach(seat, committed)
	c.openIfComplete()
	return c.settled, nil
}

func (c *carried) openIfComplete() {
	if !c.opened && c.all(committed) {
		c.opened = true
		close(c.settled)
	}
}

// Verdict returns why a pod must not be bound after all, nil if it may be bound.
func (r *Roster) Verdict(seat *Seat) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	switch {
	case c == nil:
		return errEnded(seat)
	case !c.opened:
		return fmt.Errorf("group %s: not all of its pods could be committed in time; all of them are planned again", c.name)
	}
	return nil
}

// IsPlanned reports whether a pod still has this seat and is not reserved yet.
func (r *Roster) IsPlanned(seat *Seat) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	return c != nil && c.at[seat.Pod.UID] == planned
}

// Bound ends the seat of a bound pod. It returns false if the seat had ended before.
func (r *Roster) Bound(seat *Seat) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	if c == nil {
		return false
	}
	c.need--
	r.remove(c, seat.Pod.UID)
	return true
}

// Leave ends the seat of a pod whose attempt has failed, or that is gone. The gang's other seats end as well, unless
// its pods are about to be bound, or enough of them are left. Leave returns the ended seats, that of the pod first. If
// all pods that are left are reserved, it returns these too: the caller must tell them to go on.
func (r *Roster) Leave(seat *Seat) (ended []*Seat, reserved []*v1.Pod) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	if c == nil {
		return nil, nil
	}
	ended = []*Seat{r.remove(c, seat.Pod.UID)}
	if c.opened || len(c.seats) >= c.need {
		return ended, c.goOn()
	}
	return r.giveUp(c, ended), nil
}

// goOn returns the pods that are left if all of them are reserved, because then they waited only
// for the pod that left. If all are committed, it lets them be bound.
func (c *carried) goOn() []*v1.Pod {
	if c.opened || !c.all(reserved) {
		return nil
	}
	c.openIfComplete()
	return c.except(nil)
}

// Abandon ends and returns all seats of a gang, unless its pods are about to be bound.
func (r *Roster) Abandon(gang string) []*Seat {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil || c.opened {
		return nil
	}
	return r.giveUp(c, nil)
}

// giveUp ends all seats of a gang that is not settled, and appends them to ended. The caller must hold the mutex.
func (r *Roster) giveUp(c *carried, ended []*Seat) []*Seat {
	for uid := range c.seats {
		ended = append(ended, r.remove(c, uid))
	}
	close(c.settled) // Once only: no pod has a seat of this plan any more.
	return ended
}

// remove ends a seat. The caller must hold the mutex.
func (r *Roster) remove(c *carried, pod types.UID) *Seat {
	seat := c.seats[pod]
	c.count[c.at[pod]]--
	delete(c.seats, pod)
	delete(c.at, pod)
	delete(r.pods, pod)
	if len(c.seats) == 0 && r.gangs[c.name] == c {
		delete(r.gangs, c.name)
	}
	return seat
}
