package protocol

import "slices"

// An Attempt is the state of one attempt to bind a pod. The zero value has not begun.
type Attempt struct {
	Phase Phase
	// At is the position of the claim that is being written or yields. It is valid only in Write and Yield.
	At int
	// Claims are the claims of the pod, in its order.
	Claims []Claim
}

// Phase is the step of the protocol that an attempt is in.
type Phase uint8

const (
	// Idle: no attempt is under way.
	Idle Phase = iota
	// Planned: devices are chosen or were allocated before, and nothing is written.
	Planned
	// PreWriteSettle: wait, because other schedulers may be allocating the same devices.
	PreWriteSettle
	// Write: the claims are written, one after the other.
	Write
	// See: wait until the watch has delivered the attempt's own writes, and thus all earlier ones.
	See
	// Check: determine whether another scheduler's claim was first.
	Check
	// Settle: wait, because other schedulers may have allocated the same devices before they could see these writes.
	Settle
	// Ready: wait until the devices are ready (KEP-5007).
	Ready
	// Bind: nothing prevents the pod from being bound.
	Bind
	// Bound: the pod is bound.
	Bound
	// Yield: claims have lost and are released, one after the other.
	Yield
	// Failed: this attempt will not bind the pod.
	Failed
	// Cancelled is Failed on request, for example if the pod is preempted.
	Cancelled
	// Left: the process ends, and the next one continues with what was written.
	Left
	// Release: the attempt is over, and each of its claims is released independently.
	Release
)

// Begin returns an attempt for claims that are not in flight yet.
func Begin(claims ...Claim) Attempt {
	return Attempt{Phase: Planned, Claims: claims}
}

// Step returns the attempt's state after an event, and the actions to carry out, in order. Only the last action has a
// result that is the next event. An event that is not expected in a phase makes the attempt fail, so that nothing
// depends on it.
func Step(a Attempt, e Event) (Attempt, []Action) {
	a.Claims = slices.Clone(a.Claims)
	actions := a.step(e)
	return a, actions
}

// step implements the table of transitions.
func (a *Attempt) step(e Event) []Action {
	switch {
	case e.Kind == Unreserved:
		return a.unreserve()
	case a.Phase == Planned && e.Kind == PutInFlight:
		a.Claims[e.Claim].InFlight = true
		return nil
	case a.Phase == Planned && e.Kind == Started && len(e.Lost) > 0:
		// No pod may reserve a claim that has lost: pods that share it would take turns in keeping it allocated.
		return a.checked(e)
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

// enter moves the attempt to a phase, and returns the phase's action.
func (a *Attempt) enter(p Phase) []Action {
	a.Phase, a.At = p, 0
	if action := a.due(); action.Kind != NoAction {
		return []Action{action}
	}
	return nil
}

// write moves on to the write of a claim. It marks the claim as sent first: the server may know of a request before the
// answer arrives.
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

// checked ends the check. A claim that has lost to a scheduler that takes part in the protocol yields at once.
// Otherwise it yields after settling: when the first of two claims gives up a device, the default scheduler forgets
// that the device is in use.
func (a *Attempt) checked(e Event) []Action {
	a.mark(e.Lost)
	if e.AtOnce {
		return a.lose(e)
	}
	return a.enter(Settle)
}

// passed moves on to the next phase unless a claim has lost.
func (a *Attempt) passed(e Event, next Phase) []Action {
	a.mark(e.Lost)
	if slices.ContainsFunc(a.Claims, func(c Claim) bool { return c.Lost }) {
		return a.lose(e)
	}
	return a.enter(next)
}

// mark marks claims as lost for good: if the other claim went meanwhile, other schedulers would take its devices for
// free.
func (a *Attempt) mark(lost []int) {
	for _, claim := range lost {
		a.Claims[claim].Lost = true
	}
}

// lose ends an attempt with lost claims. They are released at once, with their allocations; the last user of a claim
// that is reserved for the group releases it.
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

// yield releases the next lost claim. Unreserve releases the others.
func (a *Attempt) yield(e Event) []Action {
	next := slices.IndexFunc(a.Claims, func(c Claim) bool { return c.Phase == Asking })
	if next < 0 {
		return a.fail(e)
	}
	a.Phase, a.At = Yield, next
	return []Action{a.due()}
}

// fail ends an attempt. Its writes are undone when the scheduler calls Unreserve.
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

// over reports whether the attempt has ended.
func (a *Attempt) over() bool {
	return a.Phase == Idle || a.Phase == Bound || a.Phase == Left || a.Phase == Release
}

// unreserve undoes the attempt, the last claim first. The claims' states determine what to undo.
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

// bound ends the attempt with success. The claim of a group remains the responsibility of its other users.
func (a *Attempt) bound() (actions []Action) {
	for i := range a.Claims {
		if a.Claims[i].OfGroup {
			actions = append(actions, Action{Kind: StayInGroup, Claim: i})
		}
	}
	a.Phase = Bound
	return actions
}
