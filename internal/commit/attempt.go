package commit

import "slices"

// Attempt is where one attempt to bind a pod stands. The zero value is one that has not
// begun.
type Attempt struct {
	Phase Phase
	// At is the claim that is being written, or that yields. Only in Write and Yield.
	At int
	// Claims are those of the pod, in its order.
	Claims []Claim
}

// Phase is what is being done in an attempt.
type Phase uint8

const (
	// Idle: no attempt is under way.
	Idle Phase = iota
	// Planned: devices are chosen, or there were some, and nothing is written.
	Planned
	// PreWriteSettle: other schedulers may just be allocating the same.
	PreWriteSettle
	// Write: the claims are written, one after the other.
	Write
	// See: the watch has to deliver the own writes, and thus all that were made before.
	See
	// Check: whether somebody else was first is to be found out.
	Check
	// Settle: other schedulers may have allocated the same before they could know.
	Settle
	// Ready: the devices have to get ready (KEP-5007).
	Ready
	// Bind: nothing forbids to bind the pod.
	Bind
	// Bound: the pod is bound.
	Bound
	// Yield: claims have lost and are released, one after the other.
	Yield
	// Failed: the pod will not be bound by this attempt.
	Failed
	// Cancelled is Failed because somebody wants that, such as for a pod that is preempted.
	Cancelled
	// Left: the process ends, and the next one goes on with what was written.
	Left
	// Release: the attempt is over, and each of its claims is released by itself.
	Release
)

// Begin returns an attempt for claims that are not in flight yet.
func Begin(claims ...Claim) Attempt {
	return Attempt{Phase: Planned, Claims: claims}
}

// Step returns where the attempt stands after an event, and what has to be done: in this
// order, and only the last action has a result that is the next event. An event for which
// there is no place in a phase makes the attempt fail, so that nothing rests on it.
func Step(a Attempt, e Event) (Attempt, []Action) {
	a.Claims = slices.Clone(a.Claims)
	actions := a.step(e)
	return a, actions
}

// step is the table of transitions.
func (a *Attempt) step(e Event) []Action {
	switch {
	case e.Kind == Unreserved:
		return a.unreserve()
	case a.Phase == Planned && e.Kind == PutInFlight:
		a.Claims[e.Claim].InFlight = true
		return nil
	case a.Phase == Planned && e.Kind == Started && len(e.Lost) > 0:
		// Nobody joins what has lost: pods that share the claim would keep it allocated in turns.
		a.mark(e.Lost)
		return a.lose(e)
	case a.Phase == Planned && e.Kind == Started:
		if slices.ContainsFunc(a.Claims, func(c Claim) bool { return c.InFlight }) {
			return a.enter(PreWriteSettle)
		}
		return a.write(0)
	case a.Phase == PreWriteSettle && e.Kind == Settled:
		return a.write(0)
	case a.Phase == Write && e.Kind == Written:
		return a.written()
	case a.Phase == See && e.Kind == Seen:
		return a.enter(Check)
	case a.Phase == Check && e.Kind == Checked:
		return a.checked(e)
	case a.Phase == Settle && e.Kind == Settled:
		return a.passed(e, Ready)
	case a.Phase == Ready && e.Kind == GotReady:
		return a.passed(e, Bind)
	case a.Phase == Ready && e.Kind == ProcessEnds:
		return a.enter(Left)
	case a.Phase == Bind && e.Kind == PodBound:
		return a.bound()
	case a.Phase == Yield && e.Kind == Yielded:
		a.Claims[a.At].Phase = Untouched
		return a.yield(e)
	default:
		return a.fail(e)
	}
}

// enter goes on to a phase, and has done what there is to do in it.
func (a *Attempt) enter(p Phase) []Action {
	a.Phase, a.At = p, 0
	if action := a.due(); action.Kind != NoAction {
		return []Action{action}
	}
	return nil
}

// write goes on with a claim. Before the request is sent, the server may know of it.
func (a *Attempt) write(claim int) []Action {
	if claim == len(a.Claims) {
		return a.enter(See)
	}
	a.Phase, a.At = Write, claim
	a.Claims[claim].send()
	return []Action{a.due()}
}

func (a *Attempt) written() (actions []Action) {
	claim := a.At
	if a.Claims[claim].confirm() {
		actions = append(actions, Action{Kind: EndInFlight, Claim: claim})
	}
	return append(actions, a.write(claim+1)...)
}

// checked is the end of the check. What has lost to one of ours yields at once. To others
// it yields after settling: when the first of two claims lets go of a device, the default
// scheduler forgets that it is in use.
func (a *Attempt) checked(e Event) []Action {
	a.mark(e.Lost)
	if e.ToOurs {
		return a.lose(e)
	}
	return a.enter(Settle)
}

// passed goes on to the next phase unless a claim has lost.
func (a *Attempt) passed(e Event, next Phase) []Action {
	a.mark(e.Lost)
	if slices.ContainsFunc(a.Claims, func(c Claim) bool { return c.Lost }) {
		return a.lose(e)
	}
	return a.enter(next)
}

// mark notes that claims have lost, for good: if the other claim goes meanwhile, others
// would take its devices for free.
func (a *Attempt) mark(lost []int) {
	for _, claim := range lost {
		a.Claims[claim].Lost = true
	}
}

// lose ends an attempt with claims that have lost. They are released at once, with their
// allocations; one that is reserved for the group is left to the last of its users.
func (a *Attempt) lose(e Event) []Action {
	for i := range a.Claims {
		claim := &a.Claims[i]
		if !claim.Lost {
			continue
		}
		claim.take(Allocation)
		if claim.Lost = false; !claim.OfGroup {
			claim.release()
		}
	}
	return append([]Action{{Kind: TellConflict}}, a.yield(e)...)
}

// yield releases the next claim that has lost. The others are released with Unreserve.
func (a *Attempt) yield(e Event) []Action {
	next := slices.IndexFunc(a.Claims, func(c Claim) bool { return c.Phase == Asking })
	if next < 0 {
		return a.fail(e)
	}
	a.Phase, a.At = Yield, next
	return []Action{a.due()}
}

// fail ends an attempt for which nothing more can be done. What was written is released
// when the scheduler says so.
func (a *Attempt) fail(e Event) []Action {
	for _, claim := range e.Broken {
		a.Claims[claim].take(Allocation)
	}
	switch {
	case a.over():
	case e.Cancelled:
		return a.enter(Cancelled)
	default:
		return a.enter(Failed)
	}
	return nil
}

// over reports whether nothing can happen to the attempt any more.
func (a *Attempt) over() bool {
	return a.Phase == Idle || a.Phase == Bound || a.Phase == Left || a.Phase == Release
}

// unreserve undoes what was done for the claims, the last one first. What there is to be
// undone follows from their states.
func (a *Attempt) unreserve() (actions []Action) {
	if a.over() {
		return nil
	}
	for i := len(a.Claims) - 1; i >= 0; i-- {
		claim := &a.Claims[i]
		switch {
		case claim.OfGroup:
			actions = append(actions, Action{Kind: LeaveGroup, Claim: i})
		case claim.Phase != Untouched:
			claim.release()
			actions = append(actions, Action{Kind: ReleaseClaim, Claim: i, Background: a.Phase == Cancelled})
		case claim.InFlight:
			claim.InFlight = false
			actions = append(actions, Action{Kind: EndInFlight, Claim: i})
		}
	}
	a.Phase, a.At = Release, 0
	return actions
}

// bound ends the attempt with success. A claim of a group stays up to its other users.
func (a *Attempt) bound() (actions []Action) {
	for i := range a.Claims {
		if a.Claims[i].OfGroup {
			actions = append(actions, Action{Kind: StayInGroup, Claim: i})
		}
	}
	a.Phase = Bound
	return actions
}
