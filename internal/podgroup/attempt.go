package podgroup

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/roster"
)

// Attempt is what is known of a PodGroup during one attempt to schedule its pods together. A
// Member is what is known of one of them.
//
// The scheduler takes one pod after the other from PreFilter to Reserve, with a state of
// the group at hand. Then it takes all that back, the last pod first. If the group fits,
// each pod is reserved once more, now without that state, and bound in a goroutine of its
// own, so that the first one may be bound before the last one is reserved again. What a
// pod was given the first time it gets again: others may rely on it.
//
// Only the scheduling goroutine touches it. It implements fwk.StateData.
type Attempt[Member any] struct {
	planned map[types.UID]*resourceapi.AllocationResult
	members map[types.UID]Member
	// tried is set once a plan for all pods was tried, and seats has it.
	tried bool
	seats map[types.UID]*roster.Seat
	// inTurn are the pods that have not asked for a seat yet, in the order of the plan. It is empty if the order does not matter.
	inTurn []types.UID
}

// NewAttempt begins an attempt.
func NewAttempt[Member any]() *Attempt[Member] {
	return &Attempt[Member]{planned: make(map[types.UID]*resourceapi.AllocationResult), members: make(map[types.UID]Member)}
}

// Clone implements fwk.StateData.
func (a *Attempt[Member]) Clone() fwk.StateData { return a }

// BeginPlan reports whether a plan for all pods is to be made: once in an attempt.
func (a *Attempt[Member]) BeginPlan() bool {
	began := !a.tried
	a.tried = true
	return began
}

// Plans notes the plan for all pods. If it matters to any of them who comes first, all have to be alike: then the first one
// that asks gets the first seat, because the order in which kube-scheduler takes them is not known beforehand.
func (a *Attempt[Member]) Plans(seats []*roster.Seat) {
	a.seats, a.inTurn = make(map[types.UID]*roster.Seat, len(seats)), nil
	ordered := false
	for _, seat := range seats {
		a.seats[seat.Pod.UID] = seat
		a.inTurn = append(a.inTurn, seat.Pod.UID)
		ordered = ordered || len(seat.After) > 0
	}
	if !ordered {
		a.inTurn = nil
	}
}

// Seat returns what is planned for a pod with all others, nil if nothing is.
func (a *Attempt[Member]) Seat(pod types.UID) *roster.Seat {
	if at := slices.Index(a.inTurn, pod); at >= 0 {
		if first := a.inTurn[0]; at > 0 {
			a.seats[pod], a.seats[first] = roster.Exchanged(a.seats[pod], a.seats[first])
			a.inTurn[at] = first
		}
		a.inTurn = a.inTurn[1:]
	}
	return a.seats[pod]
}

// SetMember notes the latest state of a pod.
func (a *Attempt[Member]) SetMember(pod types.UID, m Member) { a.members[pod] = m }

// Member returns what SetMember was given for the pod, the zero value if it was not called.
func (a *Attempt[Member]) Member(pod types.UID) Member { return a.members[pod] }

// Plan notes that this attempt has put an allocation for a claim in flight: other members can
// use what is planned. For everybody else such a claim is being allocated.
func (a *Attempt[Member]) Plan(claim types.UID, allocation *resourceapi.AllocationResult) {
	a.planned[claim] = allocation
}

// Unplan notes that nothing is in flight for the claim any more.
func (a *Attempt[Member]) Unplan(claim types.UID) { delete(a.planned, claim) }

// Planned reports whether members can use what is in flight for a claim.
func (a *Attempt[Member]) Planned(claim types.UID, inFlight *resourceapi.AllocationResult) bool {
	return a.planned[claim] == inFlight
}

// Empty reports whether nothing is planned.
func (a *Attempt[Member]) Empty() bool { return len(a.planned) == 0 }
