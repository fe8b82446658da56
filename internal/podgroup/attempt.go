package podgroup

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
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
	planned  map[types.UID]*resourceapi.AllocationResult
	members  map[types.UID]Member
	reserved []types.UID
}

// NewAttempt begins an attempt.
func NewAttempt[Member any]() *Attempt[Member] {
	return &Attempt[Member]{planned: make(map[types.UID]*resourceapi.AllocationResult), members: make(map[types.UID]Member)}
}

// Clone implements fwk.StateData.
func (a *Attempt[Member]) Clone() fwk.StateData { return a }

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

// Reserve notes that a pod is reserved.
func (a *Attempt[Member]) Reserve(pod types.UID) {
	if !slices.Contains(a.reserved, pod) {
		a.reserved = append(a.reserved, pod)
	}
}

// Unreserve notes that a pod is not reserved any more.
func (a *Attempt[Member]) Unreserve(pod types.UID) {
	a.reserved = slices.DeleteFunc(a.reserved, func(uid types.UID) bool { return uid == pod })
}

// Reserved returns the pods that are reserved, in the order in which that happened first.
func (a *Attempt[Member]) Reserved() []types.UID { return a.reserved }
