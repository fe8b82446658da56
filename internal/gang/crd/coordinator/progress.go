package coordinator

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
)

// A phase is the progress of a pod.
type phase int8

const (
	planned phase = iota
	reserved
	committed
	phases int = iota // A bound pod has no assignment any more.
)

// A Progress holds the gangs whose plans are being carried out, of all profiles of a scheduler. The zero value is empty.
// It is safe for concurrent use.
type Progress struct {
	mutex sync.Mutex
	gangs map[string]*carried
	pods  map[types.UID]*carried
}

// A carried is a gang whose plan is being carried out.
type carried struct {
	name string
	// need is the number of assignments that must be taken for the gang to run.
	need        int
	assignments map[types.UID]*planning.Assignment
	at          map[types.UID]phase
	// count is the number of assignments in each phase.
	count [phases]int
	// before holds, by pod, the assignments whose After contains the pod.
	before map[types.UID][]*planning.Assignment
	// tries is the number of attempts that began with an assignment, by pod.
	tries map[types.UID]int
	// settled is closed once it is decided whether the pods are bound. opened is set if they are.
	settled chan struct{}
	opened  bool
}

// Begin stores the plan of a gang; at least need of its assignments must be taken. The gang must have no other plan.
func (r *Progress) Begin(gang string, need int, assignments []*planning.Assignment) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.gangs == nil {
		r.gangs, r.pods = make(map[string]*carried), make(map[types.UID]*carried)
	}
	c := &carried{
		name: gang, need: need, assignments: make(map[types.UID]*planning.Assignment), at: make(map[types.UID]phase),
		before: make(map[types.UID][]*planning.Assignment), tries: make(map[types.UID]int), settled: make(chan struct{}),
	}
	for _, assignment := range assignments {
		c.assignments[assignment.Pod.UID], c.at[assignment.Pod.UID] = assignment, planned
		c.count[planned]++
		r.pods[assignment.Pod.UID] = c
		for _, first := range assignment.After {
			c.before[first] = append(c.before[first], assignment)
		}
	}
	r.gangs[gang] = c
}

// Of returns the assignment of a pod, nil if it has none.
func (r *Progress) Of(pod types.UID) *planning.Assignment {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if c := r.pods[pod]; c != nil {
		return c.assignments[pod]
	}
	return nil
}

// Uses reports whether any pod with an assignment in the gang uses a claim.
func (r *Progress) Uses(gang string, claim types.UID) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil {
		return false
	}
	for _, assignment := range c.assignments {
		if _, uses := assignment.Allocations[claim]; uses {
			return true
		}
	}
	return false
}

// Carried reports whether a plan for the gang is being carried out, and its number of assignments.
func (r *Progress) Carried(gang string) (assignments int, ok bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil {
		return 0, false
	}
	return len(c.assignments), true
}

// Awaits returns the pods that must be reserved before a pod, and are not yet.
func (r *Progress) Awaits(pod types.UID) (pods []*v1.Pod) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.pods[pod]
	if c == nil {
		return nil
	}
	for _, other := range c.assignments[pod].After {
		if at, there := c.at[other]; there && at == planned {
			pods = append(pods, c.assignments[other].Pod)
		}
	}
	return pods
}

// Try counts an attempt that begins with an assignment, and returns the number of attempts; 0 if the assignment has ended.
func (r *Progress) Try(assignment *planning.Assignment) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(assignment)
	if c == nil {
		return 0
	}
	c.tries[assignment.Pod.UID]++
	return c.tries[assignment.Pod.UID]
}

// Untry undoes Try for an attempt that was abandoned.
func (r *Progress) Untry(assignment *planning.Assignment) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if c := r.of(assignment); c != nil {
		c.tries[assignment.Pod.UID]--
	}
}

// Reserve marks a pod as reserved. If all pods of its gang are reserved, it returns true and the other pods; otherwise
// it returns the pods that waited for this one to be reserved. It returns an error if the assignment has ended.
func (r *Progress) Reserve(assignment *planning.Assignment) (all bool, pods []*v1.Pod, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(assignment)
	if c == nil {
		return false, nil, errEnded(assignment)
	}
	c.reach(assignment, reserved)
	if c.all(reserved) {
		return true, c.except(assignment), nil
	}
	for _, next := range c.before[assignment.Pod.UID] {
		if c.assignments[next.Pod.UID] == next {
			pods = append(pods, next.Pod)
		}
	}
	return false, pods, nil
}

// except returns the pods of all assignments but the given one, which may be nil.
func (c *carried) except(assignment *planning.Assignment) (pods []*v1.Pod) {
	for _, other := range c.assignments {
		if other != assignment {
			pods = append(pods, other.Pod)
		}
	}
	return pods
}

// of returns the gang of an assignment, nil if the assignment has ended: the pod may have another assignment by now. The caller must hold
// the mutex.
func (r *Progress) of(assignment *planning.Assignment) *carried {
	if c := r.pods[assignment.Pod.UID]; c != nil && c.assignments[assignment.Pod.UID] == assignment {
		return c
	}
	return nil
}

// reach moves a pod to a later phase.
func (c *carried) reach(assignment *planning.Assignment, to phase) {
	if at := c.at[assignment.Pod.UID]; at < to {
		c.at[assignment.Pod.UID] = to
		c.count[at]--
		c.count[to]++
	}
}

func errEnded(assignment *planning.Assignment) error {
	return fmt.Errorf("group %s: the plan for the group was given up because another of its pods could not be scheduled; all of them are planned again", assignment.Gang)
}

// all reports whether all pods have reached a phase.
func (c *carried) all(to phase) bool {
	return !slices.ContainsFunc(c.count[:to], func(pods int) bool { return pods > 0 })
}

// Commit marks a pod as committed: all its claims are written. When the channel is closed, the pod may be bound, unless
// Verdict returns an error then. Commit returns an error if the assignment has ended.
func (r *Progress) Commit(assignment *planning.Assignment) (<-chan struct{}, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(assignment)
	if c == nil {
		return nil, errEnded(assignment)
	}
	c.reach(assignment, committed)
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
func (r *Progress) Verdict(assignment *planning.Assignment) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(assignment)
	switch {
	case c == nil:
		return errEnded(assignment)
	case !c.opened:
		return fmt.Errorf("group %s: not all of its pods could be committed in time; all of them are planned again", c.name)
	}
	return nil
}

// IsPlanned reports whether a pod still has this assignment and is not reserved yet.
func (r *Progress) IsPlanned(assignment *planning.Assignment) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(assignment)
	return c != nil && c.at[assignment.Pod.UID] == planned
}

// Bound ends the assignment of a bound pod. It returns false if the assignment had ended before.
func (r *Progress) Bound(assignment *planning.Assignment) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(assignment)
	if c == nil {
		return false
	}
	c.need--
	r.remove(c, assignment.Pod.UID)
	return true
}

// Leave ends the assignment of a pod whose attempt has failed, or that is gone. The gang's other assignments end as well, unless
// its pods are about to be bound, or enough of them are left. Leave returns the ended assignments, that of the pod first. If
// all pods that are left are reserved, it returns these too: the caller must tell them to go on.
func (r *Progress) Leave(assignment *planning.Assignment) (ended []*planning.Assignment, reserved []*v1.Pod) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.of(assignment)
	if c == nil {
		return nil, nil
	}
	ended = []*planning.Assignment{r.remove(c, assignment.Pod.UID)}
	if c.opened || len(c.assignments) >= c.need {
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

// Abandon ends and returns all assignments of a gang, unless its pods are about to be bound.
func (r *Progress) Abandon(gang string) []*planning.Assignment {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.gangs[gang]
	if c == nil || c.opened {
		return nil
	}
	return r.giveUp(c, nil)
}

// giveUp ends all assignments of a gang that is not settled, and appends them to ended. The caller must hold the mutex.
func (r *Progress) giveUp(c *carried, ended []*planning.Assignment) []*planning.Assignment {
	for uid := range c.assignments {
		ended = append(ended, r.remove(c, uid))
	}
	close(c.settled) // Once only: no pod has an assignment of this plan any more.
	return ended
}

// remove ends an assignment. The caller must hold the mutex.
func (r *Progress) remove(c *carried, pod types.UID) *planning.Assignment {
	assignment := c.assignments[pod]
	c.count[c.at[pod]]--
	delete(c.assignments, pod)
	delete(c.at, pod)
	delete(r.pods, pod)
	if len(c.assignments) == 0 && r.gangs[c.name] == c {
		delete(r.gangs, c.name)
	}
	return assignment
}
