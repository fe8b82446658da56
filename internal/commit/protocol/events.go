package protocol

// An Event is an event in an attempt.
type Event struct {
	Kind EventKind
	// Claim is the position of the claim put in flight. It is valid only with PutInFlight.
	Claim int
	// Lost are the claims that have to yield, because another claim holds the same devices.
	Lost []int
	// AtOnce is set if one of them has lost to a scheduler that takes part in the protocol, or if nothing comes free: then they
	// yield without settling. It is valid only with Started and Checked.
	AtOnce bool
	// Broken are claims whose devices do not get ready: their allocation is useless.
	Broken []int
	// Cancelled is set if the attempt was ended on request.
	Cancelled bool
}

// EventKind is the kind of an event.
type EventKind uint8

const (
	// NoEvent is the zero value.
	NoEvent EventKind = iota
	// PutInFlight: Reserve keeps the devices planned for a claim from others.
	PutInFlight
	// Started: PreBind begins. Lost are claims that were allocated before and are known to have lost.
	Started
	// Settled: the other schedulers had time to show their allocations.
	Settled
	// Written: the server has confirmed allocation and reservation of the claim.
	Written
	// Seen: the watch has delivered the writes of all claims.
	Seen
	// Checked: conflicts with claims that were allocated earlier are known.
	Checked
	// GotReady: all devices are ready, and conflicts with claims that were allocated earlier are known.
	GotReady
	// Yielded: the claim that yields is released.
	Yielded
	// PodBound: the server has bound the pod.
	PodBound
	// ProcessEnds: there is no time to release anything.
	ProcessEnds
	// Failure is everything else: a plan in conflict with a claim that was allocated first, a write that was refused or
	// whose outcome is unknown, a claim that is gone, a watch that does not deliver, a pool too little known for the
	// check, an allocation that was removed, a claim that could not be released, a lost lease. The next step does not
	// depend on which it was.
	Failure
	// Unreserved: the scheduler has given up the attempt.
	Unreserved
)

// An Action is a step for the caller to carry out.
type Action struct {
	Kind  ActionKind
	Claim int
	// Background is set if nothing may wait for the action. It is valid only with ReleaseClaim.
	Background bool
}

// ActionKind is the kind of an action. Each constant's comment names the event with its result; the result may also be
// Failure, unless there is no event.
type ActionKind uint8

const (
	NoAction ActionKind = iota
	// AwaitOthers before the write: Settled.
	AwaitOthers
	// WriteClaim: Written.
	WriteClaim
	// AwaitWatch: Seen.
	AwaitWatch
	// CheckOrder of all claims: Checked.
	CheckOrder
	// AwaitLateWrites of others after the own one: Settled.
	AwaitLateWrites
	// AwaitDevices: GotReady, or ProcessEnds.
	AwaitDevices
	// BindPod: PodBound.
	BindPod
	// TellConflict reports which claims have lost, and to which ones. No event.
	TellConflict
	// YieldClaim releases a claim with Claim.Step, trying once: Yielded.
	YieldClaim
	// EndInFlight frees the devices that were planned for a claim, unless the server has given them to it. No event.
	EndInFlight
	// ReleaseClaim releases a claim with Claim.Step until it succeeds. No event.
	ReleaseClaim
	// LeaveGroup ends this attempt's use of a group's claim with Group.Leave, and releases what Leave returns. No
	// event.
	LeaveGroup
	// StayInGroup calls Group.Bound. No event.
	StayInGroup

	// FindOut determines what was written, and changes nothing. This action and the next ones are for Claim.Step: Done
	// or NotDone.
	FindOut
	// RollBackReservation of the attempt's consumer.
	RollBackReservation
	// RollBackAllocation rolls back the reservation and the allocation, unless other consumers have reserved the claim.
	RollBackAllocation
	// DeleteClaim deletes it.
	DeleteClaim
	// TryAgain starts from Asking again, after a pause.
	TryAgain
)

// due returns the action of the current phase.
func (a *Attempt) due() Action {
	switch a.Phase {
	case PreWriteSettle:
		return Action{Kind: AwaitOthers}
	case Write:
		return Action{Kind: WriteClaim, Claim: a.At}
	case See:
		return Action{Kind: AwaitWatch}
	case Check:
		return Action{Kind: CheckOrder}
	case Settle:
		return Action{Kind: AwaitLateWrites}
	case Ready:
		return Action{Kind: AwaitDevices}
	case Bind:
		return Action{Kind: BindPod}
	case Yield:
		return Action{Kind: YieldClaim, Claim: a.At}
	default:
		return Action{}
	}
}
