package workload

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
)

// Attempt is the state of one attempt to schedule the pods of a PodGroup together. Member is the caller's data about a
// pod.
//
// The scheduler takes the pods one after the other from PreFilter to Reserve, with the group's cycle state. Then it
// undoes all that, the last pod first. If the group fits, it reserves each pod once more, now without that state, and
// binds it in a goroutine of its own: the first pod may be bound before the last one is reserved again. So each pod
// must get the same allocations as the first time: other pods may rely on them.
//
// Only the scheduling goroutine touches an Attempt. It implements fwk.StateData.
type Attempt[Member any] struct {
	members map[types.UID]Member
	// tried is set once a plan for all pods was attempted. assignments holds that plan.
	tried       bool
	assignments map[types.UID]*planning.Assignment
	// inTurn holds the pods that have not asked for an assignment yet, in the order of the plan. It is empty if the order does
	// not matter.
	inTurn []types.UID
}

// NewAttempt returns an empty Attempt.
func NewAttempt[Member any]() *Attempt[Member] {
	return &Attempt[Member]{members: make(map[types.UID]Member)}
}

// Clone implements fwk.StateData.
func (a *Attempt[Member]) Clone() fwk.StateData { return a }

// BeginPlan reports whether to make a plan for all pods: only once in an attempt.
func (a *Attempt[Member]) BeginPlan() bool {
	began := !a.tried
	a.tried = true
	return began
}

// Plans stores the plan for all pods. If the order matters to any of them, all must be alike: the first pod that asks
// gets the first assignment, because the order in which kube-scheduler takes the pods is not known beforehand.
func (a *Attempt[Member]) Plans(assignments []*planning.Assignment) {
	a.assignments, a.inTurn = make(map[types.UID]*planning.Assignment, len(assignments)), nil
	ordered := false
	for _, assignment := range assignments {
		a.assignments[assignment.Pod.UID] = assignment
		a.inTurn = append(a.inTurn, assignment.Pod.UID)
		ordered = ordered || len(assignment.After) > 0
	}
	if !ordered {
		a.inTurn = nil
	}
}

// Assignment returns a pod's assignment in the plan for all pods, nil if it has none.
func (a *Attempt[Member]) Assignment(pod types.UID) *planning.Assignment {
	if at := slices.Index(a.inTurn, pod); at >= 0 {
		if first := a.inTurn[0]; at > 0 {
			a.assignments[pod], a.assignments[first] = planning.Exchanged(a.assignments[pod], a.assignments[first])
			a.inTurn[at] = first
		}
		a.inTurn = a.inTurn[1:]
	}
	return a.assignments[pod]
}

// PlannedForOthers returns the assignments that no pod has been tried with yet, if the plan for all pods leaves the given one out. Such a
// pod must not take the devices of these: kube-scheduler may try it first.
func (a *Attempt[Member]) PlannedForOthers(pod types.UID) (others []*planning.Assignment) {
	if a.assignments[pod] != nil {
		return nil
	}
	for _, uid := range slices.Sorted(maps.Keys(a.assignments)) {
		if _, tried := a.members[uid]; !tried {
			others = append(others, a.assignments[uid])
		}
	}
	return others
}

// SetMember stores the latest state of a pod.
func (a *Attempt[Member]) SetMember(pod types.UID, m Member) { a.members[pod] = m }

// Member returns the value given to SetMember for the pod, the zero value if there is none.
func (a *Attempt[Member]) Member(pod types.UID) Member { return a.members[pod] }
