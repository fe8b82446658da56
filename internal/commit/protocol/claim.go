package protocol

// A Claim is the state of one claim of an attempt.
type Claim struct {
	Phase ClaimPhase
	// InFlight is set while the devices are kept from others for this claim: from the plan until the server has
	// confirmed the allocation, or until it is certain that the claim does not get them. A claim that was allocated
	// before the attempt is not in flight.
	InFlight bool
	// Lost is set if another claim holds the same devices and this one has to yield. It is reset when this claim
	// yields.
	Lost bool
	// OfGroup is set if the claim is reserved for the pod's PodGroup: then this attempt alone does not decide about its
	// release; see Group.
	OfGroup bool
	// Takes is the part to roll back if the attempt fails.
	Takes Takes
}

// ClaimPhase is the server's possible knowledge of a claim through an attempt.
type ClaimPhase uint8

const (
	// Untouched: nothing, or nothing any more.
	Untouched ClaimPhase = iota
	// Sent: the write is being sent, or its outcome is unknown.
	Sent
	// Confirmed: the server has answered that the claim is allocated and reserved.
	Confirmed
	// Asking: the attempt has failed; the next question is whether a bound pod needs the claim anyway.
	Asking
	// FindingOut: a bound pod needs it, or may; only the result of the write is still to be determined.
	FindingOut
	// Releasing: no bound pod needs it; Takes is being rolled back.
	Releasing
)

// Takes is the part of a claim that a release rolls back.
type Takes uint8

const (
	// Reservation: the allocation was there before this attempt.
	Reservation Takes = iota
	// Allocation: the allocation too, unless other consumers have reserved the claim. The attempt has written it, or
	// the claim has lost to another one.
	Allocation
	// WholeClaim: the claim was created for the pod, and is deleted with the attempt.
	WholeClaim
)

// ClaimEvent is an event of a claim that is being released.
type ClaimEvent uint8

const (
	// InUse: a bound pod needs the claim, or the binding of a pod may be under way.
	InUse ClaimEvent = iota
	// NotInUse: no bound pod needs it.
	NotInUse
	// Done: the server has carried out the last action.
	Done
	// NotDone: the result is unknown, or the question was not answered.
	NotDone
)

// Step advances the release of a claim; the action may be NoAction. The devices stay in flight until the server has
// answered what became of the claim: a write of unknown outcome may have given them to the claim, and they must not be
// allocated twice.
func (c Claim) Step(e ClaimEvent) (Claim, ActionKind) {
	switch {
	case e == NotDone:
		c.Phase = Asking
		return c, TryAgain
	case c.Phase == Asking && e == InUse:
		c.Phase = FindingOut
		return c, FindOut
	case c.Phase == Asking && e == NotInUse:
		c.Phase = Releasing
		return c, [...]ActionKind{Reservation: RollBackReservation, Allocation: RollBackAllocation, WholeClaim: DeleteClaim}[c.Takes]
	case (c.Phase == FindingOut || c.Phase == Releasing) && e == Done:
		wasInFlight := c.InFlight
		c.Phase, c.InFlight, c.Lost = Untouched, false, false
		if wasInFlight {
			return c, EndInFlight
		}
	}
	return c, NoAction
}

// send marks a claim whose write is about to be sent.
func (c *Claim) send() {
	c.Phase = Sent
	if c.InFlight {
		c.take(Allocation)
	}
}

// confirm marks a claim whose write the server has confirmed. It returns whether the devices were in flight: from now
// on the server has them.
func (c *Claim) confirm() (wasInFlight bool) {
	wasInFlight = c.InFlight
	c.Phase, c.InFlight = Confirmed, false
	return wasInFlight
}

// take sets the part to roll back to at least what.
func (c *Claim) take(what Takes) { c.Takes = max(c.Takes, what) }

// release starts a release, which Claim.Step continues.
func (c *Claim) release() { c.Phase, c.Lost = Asking, false }
