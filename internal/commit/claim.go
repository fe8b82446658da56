package commit

// Claim is where one claim of an attempt stands.
type Claim struct {
	Phase ClaimPhase
	// InFlight is set while devices are kept from others for this claim: from the plan until
	// the server has confirmed the allocation, or it is known that nothing comes of it. A
	// claim that had its allocation before the attempt is not in flight.
	InFlight bool
	// Lost is set if another claim holds the same and this one has to yield. Only until then.
	Lost bool
	// OfGroup is set if the claim is reserved for the pod's PodGroup: then its release is
	// not up to this attempt alone, see Group.
	OfGroup bool
	// Takes is what goes if the attempt fails.
	Takes Takes
}

// ClaimPhase says what the server may know of a claim because of an attempt.
type ClaimPhase uint8

const (
	// Untouched: nothing, or nothing any more.
	Untouched ClaimPhase = iota
	// Sent: the write is being sent, or was and nobody knows what became of it.
	Sent
	// Confirmed: the server has answered that the claim is allocated and reserved.
	Confirmed
	// Asking: the attempt has failed. Whether a bound pod needs the claim all the same is
	// to be found out.
	Asking
	// FindingOut: it does, or may. All that is to be found out is what was written.
	FindingOut
	// Releasing: it does not. What Takes says is being rolled back.
	Releasing
)

// Takes is what a release rolls back.
type Takes uint8

const (
	// Reservation: the allocation was there before this attempt.
	Reservation Takes = iota
	// Allocation: also the allocation, unless others have reserved the claim. The attempt
	// has written it, or it has lost against another one.
	Allocation
	// WholeClaim: the claim was made for the pod and goes with the attempt.
	WholeClaim
)

// ClaimEvent is what happened to a claim that is being released.
type ClaimEvent uint8

const (
	// InUse: a bound pod needs the claim, or the binding of one may be under way.
	InUse ClaimEvent = iota
	// NotInUse: no bound pod needs it.
	NotInUse
	// Done: the server has done what the last action asked for.
	Done
	// NotDone: it is not known whether, or the question was not answered.
	NotDone
)

// Step is a step of a claim that is being released; the action may be NoAction. Only when
// the server has said what became of the claim do its devices cease to be in flight: if
// they were forgotten while a write of unknown outcome has given them to the claim, they
// would be given out twice.
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

// send is what becomes of a claim when its write is about to be sent.
func (c *Claim) send() {
	c.Phase = Sent
	if c.InFlight {
		c.take(Allocation)
	}
}

// confirm is what becomes of it when the server has answered. It returns whether the
// devices were in flight: from now on they are the server's.
func (c *Claim) confirm() (wasInFlight bool) {
	wasInFlight = c.InFlight
	c.Phase, c.InFlight = Confirmed, false
	return wasInFlight
}

// take has at least so much go with the attempt.
func (c *Claim) take(what Takes) { c.Takes = max(c.Takes, what) }

// release begins a release, with Claim.Step.
func (c *Claim) release() { c.Phase, c.Lost = Asking, false }
