package commit

// Event is what has happened in an attempt.
type Event struct {
	Kind EventKind
	// Claim is the one that was put in flight. Only with PutInFlight.
	Claim int
	// Lost are the claims of which another claim holds the same. They yield.
	Lost []int
	// ToOurs is set if one of them has lost to a scheduler that takes part in the protocol.
	// Only with Checked.
	ToOurs bool
	// Broken are claims whose devices do not get ready: their allocation is of no use.
	Broken []int
	// Cancelled is set if somebody wants the attempt to end.
	Cancelled bool
}

// EventKind says what has happened.
type EventKind uint8

const (
	// NoEvent stands for nothing.
	NoEvent EventKind = iota
	// PutInFlight: Reserve keeps the devices planned for a claim from others.
	PutInFlight
	// Started: PreBind begins. Lost are claims that were allocated before and are known to have lost to one of ours.
	Started
	// Settled: others have had the time to show what they have allocated.
	Settled
	// Written: the server has confirmed allocation and reservation of the claim.
	Written
	// Seen: the watch has delivered the writes of all claims.
	Seen
	// Checked: it is known which claims are in conflict with one that was allocated before.
	Checked
	// GotReady: so are all devices.
	GotReady
	// Yielded: the claim that yields is released.
	Yielded
	// PodBound: the server has bound the pod.
	PodBound
	// ProcessEnds: there is no time to release anything.
	ProcessEnds
	// Failure is everything else: a plan with which a claim that was allocated first is in
	// conflict, a write that was refused or of which nobody knows the outcome, a claim that is
	// gone, a watch that does not deliver, a pool of which nobody knows enough for the check, an allocation that
	// somebody has removed, a claim that could not be released, a lost lease. What to do next
	// does not depend on which it was.
	Failure
	// Unreserved: the scheduler has given the attempt up.
	Unreserved
)

// Action is what has to be done.
type Action struct {
	Kind  ActionKind
	Claim int
	// Background says that nobody may wait for it. Only with ReleaseClaim.
	Background bool
}

// ActionKind says what has to be done, and which event tells of the result. Instead, it may
// always be Failure, unless there is no event at all.
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
	// TellConflict says which claims have lost, and to whom. No event.
	TellConflict
	// YieldClaim, with Claim.Step, once: Yielded.
	YieldClaim
	// EndInFlight has others get the devices that were planned for a claim, as far as the
	// server has not given them to it. No event.
	EndInFlight
	// ReleaseClaim, with Claim.Step, until it is done. No event.
	ReleaseClaim
	// LeaveGroup ends the attempt's use of a claim of a group, with Group.Leave, and
	// releases what that says. No event.
	LeaveGroup
	// StayInGroup is Group.Bound. No event.
	StayInGroup

	// FindOut what was written, and leave it so. These are for Claim.Step: Done or NotDone.
	FindOut
	// RollBackReservation of the attempt's consumer.
	RollBackReservation
	// RollBackAllocation with it, unless others have reserved the claim.
	RollBackAllocation
	// DeleteClaim deletes it.
	DeleteClaim
	// TryAgain, from the question whether a bound pod needs the claim, after a pause.
	TryAgain
)

// due is what has to be done in a phase, once it is entered.
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
