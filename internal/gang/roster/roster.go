package roster

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Seat is what is planned for a pod of a gang. It is immutable.
type Seat struct {
	// Gang is "namespace/name" of the group.
	Gang string
	Pod  *v1.Pod
	Node string
	// Claims are those of the pod that had no allocation, and Allocations what they get, by UID.
	Claims      []*resourceapi.ResourceClaim
	Allocations map[types.UID]*resourceapi.AllocationResult
	// Made is the last of the claims if it does not exist yet: it is made for the pod's extended resources (KEP-5004).
	Made *resourceapi.ResourceClaim
	// After are the pods that have to be reserved before this one, because it depends on them where it may be.
	After []types.UID
}

// PlanOf returns what claims get, in their order; nil if that is not planned for all of them.
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

// Exchanged returns the seats of two pods that are alike (planning.Gang.AnyOrder), each with what was planned for the
// other one.
func Exchanged(a, b *Seat) (*Seat, *Seat) { return a.with(b), b.with(a) }

// with is a seat of the same pod with what is planned for another one. It has no After: seats are exchanged when it is the
// turn of one of them.
func (s *Seat) with(other *Seat) *Seat {
	seat := *s
	seat.Node, seat.After, seat.Allocations = other.Node, nil, make(map[types.UID]*resourceapi.AllocationResult, len(s.Claims))
	for i, claim := range s.Claims {
		seat.Allocations[claim.UID] = other.Allocations[other.Claims[i].UID]
	}
	return &seat
}

// phase is how far a pod has got.
type phase int8

const (
	planned phase = iota
	reserved
	committed
	phases int = iota // A pod that is bound has no seat any more.
)

// Roster has the gangs whose plans are being carried out, of all profiles of a scheduler. The zero value has none. It is
// safe for concurrent use.
type Roster struct {
	mutex sync.Mutex
	gangs map[string]*carried
	pods  map[types.UID]*carried
}

// carried is a gang whose plan is being carried out.
type carried struct {
	name string
	// need is how many of the seats have to be taken for the gang to run.
	need  int
	seats map[types.UID]*Seat
	at    map[types.UID]phase
	// count is how many seats are at each phase.
	count [phases]int
	// before are the seats that have to be reserved after a pod's.
	before map[types.UID][]*Seat
	// tries is how often an attempt began with a seat.
	tries map[types.UID]int
	// settled is closed when it is decided whether the pods are bound: opened is set if they are.
	settled chan struct{}
	opened  bool
}

// Begin notes the plan of a gang, of which so many seats have to be taken. It replaces no other plan: there must be none.
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

// Carried reports whether a plan for the gang is being carried out, and how many seats it has.
func (r *Roster) Carried(gang string) (seats int, ok bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil {
		return 0, false
	}
	return len(c.seats), true
}

// Awaits returns the pods that have to be reserved before a pod, and are not yet.
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

// Try counts an attempt that begins with a seat, and returns how many there were; 0 if the seat has ended.
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

// Untry has an attempt not count, which began with a seat and came to no end.
func (r *Roster) Untry(seat *Seat) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if c := r.of(seat); c != nil {
		c.tries[seat.Pod.UID]--
	}
}

// Reserve notes that a pod is reserved on its node. It reports whether all pods of its gang are, and returns the others
// then; else it returns those that had to wait for this one to be reserved. The error says that the seat has ended.
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

// except returns the pods of all seats but one, which may be nil.
func (c *carried) except(seat *Seat) (pods []*v1.Pod) {
	for _, other := range c.seats {
		if other != seat {
			pods = append(pods, other.Pod)
		}
	}
	return pods
}

// of returns the gang in which a seat is, nil if it has ended: the pod may have got another one since. It needs the mutex.
func (r *Roster) of(seat *Seat) *carried {
	if c := r.pods[seat.Pod.UID]; c != nil && c.seats[seat.Pod.UID] == seat {
		return c
	}
	return nil
}

// reach notes how far a pod has got.
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

// all reports whether all pods have got so far.
func (c *carried) all(to phase) bool {
	for _, count := range c.count[:to] {
		if count > 0 {
			return false
		}
	}
	return true
}

// Commit notes that all claims of a pod are written. The pod may be bound when the channel is closed, unless Verdict has
// an error then. The error says that the seat has ended.
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

// Verdict is why a pod must not be bound after all, nil if it may be.
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

// IsPlanned reports whether a pod has its seat and is not reserved yet.
func (r *Roster) IsPlanned(seat *Seat) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(seat)
	return c != nil && c.at[seat.Pod.UID] == planned
}

// Bound ends the seat of a pod that is bound. It reports false if that had ended.
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

// Leave ends the seat of a pod whose attempt has failed, or that is gone. Unless the others of the gang are about to be
// bound, or enough of them are left, theirs end as well. It returns the seats that have ended, that of the pod first, and
// the pods that are left if all of these are reserved: nobody else tells them that they have not to wait for each other.
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

// goOn has the pods that are left do the next step if they waited for nobody but one that is gone.
func (c *carried) goOn() []*v1.Pod {
	if c.opened || !c.all(reserved) {
		return nil
	}
	c.openIfComplete()
	return c.except(nil)
}

// Abandon ends all seats of a gang, unless its pods are about to be bound, and returns these.
func (r *Roster) Abandon(gang string) []*Seat {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil || c.opened {
		return nil
	}
	return r.giveUp(c, nil)
}

// giveUp ends all seats of a gang that is not settled, and appends them. It needs the mutex.
func (r *Roster) giveUp(c *carried, ended []*Seat) []*Seat {
	for uid := range c.seats {
		ended = append(ended, r.remove(c, uid))
	}
	close(c.settled) // Once: nobody has a seat of this plan any more.
	return ended
}

// remove needs the mutex.
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
