package protocol

import "github.com/quartermaster-dra/quartermaster/internal/commit/protocol"

// attempt takes a pod's attempt through the steps of the protocol, with the events that result from its
// actions.
func (p *podState) attempt(events ...protocol.Event) {
	attempt := protocol.Attempt{Phase: p.phase, Claims: []protocol.Claim{p.claim}}
	for _, event := range events {
		attempt, _ = protocol.Step(attempt, event)
	}
	p.phase, p.claim = attempt.Phase, attempt.Claims[0]
	if p.phase == protocol.Failed {
		p.attempt(protocol.Event{Kind: protocol.Unreserved})
	}
	switch {
	case p.phase == protocol.Release && p.claim.Phase == protocol.Untouched:
		*p = podState{deleted: p.deleted}
	case p.phase == protocol.Bound:
		*p = podState{phase: protocol.Bound, plan: p.plan, deleted: p.deleted}
	}
}

// fail ends an attempt that cannot continue.
func (p *podState) fail() {
	p.at, p.noticed = 0, false
	p.attempt(protocol.Event{Kind: protocol.Failure})
}

// pass continues from the check with the events of an attempt that has nothing to wait for.
func (p *podState) pass() {
	p.at, p.noticed = 0, false
	p.attempt(protocol.Event{Kind: protocol.Settled}, protocol.Event{Kind: protocol.GotReady})
}

// lose is pass for a claim that has lost.
func (p *podState) lose(kind protocol.EventKind) {
	p.at, p.noticed = 0, false
	p.attempt(protocol.Event{Kind: kind, Lost: []int{0}, AtOnce: true})
}

// settles reports whether the pod's claim settles.
func (m *model) settles(p uint8) bool { return m.settle && !m.blind[m.pods[p].scheduler] }

// podSteps emits the next steps of the scheduler's attempt for this pod.
func (m *model) podSteps(from *state, p uint8, emit emitter) {
	switch from.pods[p].phase {
	case protocol.Idle:
		if !from.pods[p].deleted {
			m.planSteps(from, p, emit)
		}
	case protocol.PreWriteSettle:
		m.preSettleSteps(from, p, emit)
	case protocol.Write:
		m.writeSteps(from, p, emit)
	case protocol.See:
		m.checkSteps(from, p, emit)
		m.failSteps(from, p, emit)
	case protocol.Settle:
		m.settleSteps(from, p, emit)
		m.failSteps(from, p, emit)
	case protocol.Bind:
		m.bindSteps(from, p, emit)
		m.failSteps(from, p, emit)
	case protocol.Yield, protocol.Release:
		if m.hasRoom(from) {
			s := *from
			emit(m.release(&s, p), &s, "")
		}
	}
}

// planSteps chooses devices from the scheduler's view: those of an existing allocation, or any that look
// free.
func (m *model) planSteps(from *state, p uint8, emit emitter) {
	claim := m.pods[p].claim
	v := &from.views[m.pods[p].scheduler]
	if existing := v.claims[claim].allocation; existing != 0 {
		m.plan(from, p, existing, true, emit)
		return
	}
	if m.inFlight(from, m.pods[p].scheduler, claim) != 0 {
		return // another pod of this scheduler is about to allocate the claim
	}
	for _, c := range m.claims[claim] {
		if m.looksFree(from, m.pods[p].scheduler, claim, c) {
			m.plan(from, p, c, false, emit)
		}
	}
}

// plan begins an attempt with a choice.
func (m *model) plan(from *state, p uint8, c choice, joins bool, emit emitter) {
	s := *from
	pod := &s.pods[p]
	begun := protocol.Begin(protocol.Claim{})
	pod.phase, pod.claim, pod.plan = begun.Phase, begun.Claims[0], c
	if !joins {
		pod.attempt(protocol.Event{Kind: protocol.PutInFlight})
	}
	if joins && m.looksBeforeJoining(p) && m.knownToLose(&s, p, c) {
		if m.settles(p) && !m.lostToOurs(&s.views[m.pods[p].scheduler], m.pods[p].claim, c) {
			pod.attempt(protocol.Event{Kind: protocol.Started, Lost: []int{0}})
		} else {
			pod.lose(protocol.Started)
		}
		emit(label{doPlan, p, c}, &s, "")
		return
	}
	pod.attempt(protocol.Event{Kind: protocol.Started})
	if pod.phase == protocol.PreWriteSettle && !m.settles(p) {
		pod.attempt(protocol.Event{Kind: protocol.Settled})
	}
	emit(label{doPlan, p, c}, &s, "")
}

// looksBeforeJoining reports whether the pod's scheduler checks an existing allocation for conflicts
// before it joins.
func (m *model) looksBeforeJoining(p uint8) bool {
	return !m.blind[m.pods[p].scheduler] && !m.flaws.has(noCheck) && !m.flaws.has(joinsUnchecked) && !m.flaws.has(joinsLost)
}

// knownToLose reports whether the pod's scheduler knows that the allocation has to yield.
func (m *model) knownToLose(s *state, p uint8, c choice) bool {
	v, claim := &s.views[m.pods[p].scheduler], m.pods[p].claim
	return m.check(v, claim, c) != passes || m.settles(p) && m.foreignConflict(v, claim, c)
}

// inFlight returns the allocation that the scheduler has decided on for a claim, if any. It matters until
// the watch has delivered it.
func (m *model) inFlight(s *state, scheduler, claim uint8) choice {
	for p, pod := range m.pods {
		state := &s.pods[p]
		if pod.scheduler != scheduler || pod.claim != claim || state.deleted && state.phase == protocol.Bound {
			continue
		}
		if state.claim.InFlight {
			return state.plan
		}
		switch state.phase {
		case protocol.Write, protocol.See, protocol.Settle, protocol.Bind, protocol.Bound:
			return state.plan
		}
	}
	return 0
}

// looksFree reports whether the scheduler believes that a choice is free.
func (m *model) looksFree(s *state, scheduler, claim uint8, c choice) bool {
	with := s.views[scheduler]
	if with.incomplete {
		return false // Nobody allocates from a pool that is not complete.
	}
	for i := range m.claims {
		if uint8(i) != claim && with.claims[i].allocation == 0 {
			with.claims[i].allocation = m.inFlight(s, scheduler, uint8(i))
		}
	}
	return !m.overdrawn(&with, claim, c, func(*known) bool { return true })
}

// preSettleSteps ends the wait before the write at any time, because no modelled property depends on it.
// It also ends the attempt if another claim has got the planned devices meanwhile.
func (m *model) preSettleSteps(from *state, p uint8, emit emitter) {
	s := *from
	s.pods[p].attempt(protocol.Event{Kind: protocol.Settled})
	emit(label{action: doPreSettle, who: p}, &s, "")
	v := &from.views[m.pods[p].scheduler]
	if m.overdrawn(v, m.pods[p].claim, from.pods[p].plan, func(*known) bool { return true }) {
		s = *from
		s.pods[p].fail()
		emit(label{doPreSettle, p, 1}, &s, "")
	}
}

// writeSteps writes allocation and reservation, or only the reservation.
func (m *model) writeSteps(from *state, p uint8, emit emitter) {
	if !m.hasRoom(from) {
		return
	}
	s := *from
	m.write(&s, p)
	emit(label{action: doWrite, who: p}, &s, "")
	if m.mayFail(from, p) {
		// The answer gets lost, so the scheduler does not know whether the write was stored.
		s = *from
		s.failures--
		m.reserve(&s, p, s.pods[p].plan, !s.pods[p].claim.InFlight)
		s.pods[p].fail()
		emit(label{doFail, p, 1}, &s, "")
	}
}

// write does the write of writeSteps if the answer arrives.
func (m *model) write(s *state, p uint8) {
	pod := &s.pods[p]
	claim := m.pods[p].claim
	wasAllocated := s.claims[claim].allocation != 0
	at := version(0)
	switch m.reserve(s, p, pod.plan, !pod.claim.InFlight) {
	case refused:
		pod.fail()
		return
	case stored:
		at = s.now
	case unchanged:
		at = s.claims[claim].version
		if !m.needsVersions {
			at = s.now
		}
	}
	pod.attempt(protocol.Event{Kind: protocol.Written})
	pod.at = at
	if m.blind[m.pods[p].scheduler] || m.flaws.has(noCheck) || m.flaws.has(joinsUnchecked) && wasAllocated {
		pod.attempt(protocol.Event{Kind: protocol.Seen}, protocol.Event{Kind: protocol.Checked})
		pod.pass()
	}
}

// delivered reports whether the watch has delivered the pod's own write.
func (m *model) delivered(v *view, p uint8, at version) bool {
	return m.flaws.has(noAwait) || v.upTo >= at && v.pending&bit(m.pods[p].claim) == 0
}

// checkSteps decides whether the pod may be bound, once the watch has delivered the necessary versions.
func (m *model) checkSteps(from *state, p uint8, emit emitter) {
	s := *from
	pod, v := &s.pods[p], &s.views[m.pods[p].scheduler]
	switch {
	case !m.delivered(v, p, pod.at):
	case v.incomplete && !m.flaws.has(unknownPasses):
		// It waits for the pool to be complete, but not for ever.
		pod.fail()
		emit(label{action: doStopWaiting, who: p}, &s, "")
	default:
		result, broken := m.doCheck(&s, p)
		emit(label{doCheck, p, uint8(result)}, &s, broken)
	}
}

// doCheck passes the result of the check to the attempt. It returns the broken property if the result
// wrongs the pod.
func (m *model) doCheck(s *state, p uint8) (result verdict, broken string) {
	pod, claim := &s.pods[p], m.pods[p].claim
	v := &s.views[m.pods[p].scheduler]
	result = m.check(v, claim, pod.plan)
	if result == wasLate && !m.lostInTruth(v, claim) && !m.onlySafety {
		broken = firstReleases
	}
	pod.attempt(protocol.Event{Kind: protocol.Seen})
	switch {
	case result == gone:
		pod.fail()
	case result != passes && (!m.settles(p) || m.lostToOurs(v, claim, pod.plan)):
		pod.lose(protocol.Checked)
	case result != passes:
		pod.at = 0
		pod.attempt(protocol.Event{Kind: protocol.Checked, Lost: []int{0}})
	default:
		pod.at = 0
		pod.attempt(protocol.Event{Kind: protocol.Checked})
	}
	if pod.phase == protocol.Settle && !m.settles(p) {
		pod.pass()
	}
	return result, broken
}

// settleSteps notices allocations of blind schedulers, and ends the wait for them.
func (m *model) settleSteps(from *state, p uint8, emit emitter) {
	claim := m.pods[p].claim
	v, plan := &from.views[m.pods[p].scheduler], from.pods[p].plan
	lost := from.pods[p].noticed || from.pods[p].claim.Lost || m.foreignConflict(v, claim, plan)
	if lost && !from.pods[p].noticed && !from.pods[p].claim.Lost {
		s := *from
		s.pods[p].noticed = true
		emit(label{action: doNotice, who: p}, &s, "")
	}
	if m.settlesLongEnough && !m.settled(from, p) {
		return
	}
	s := *from
	pod := &s.pods[p]
	switch {
	case lost:
		pod.lose(protocol.Settled)
	case v.claims[claim].allocation != plan:
		pod.fail()
	default:
		pod.pass()
	}
	emit(label{doSettle, p, uint8(pod.phase)}, &s, "")
}

// settled reports whether everything that a blind scheduler decided before it could see
// the pod's allocation has arrived and was delivered.
func (m *model) settled(s *state, p uint8) bool {
	c := s.claims[m.pods[p].claim]
	if s.views[m.pods[p].scheduler].upTo < s.now {
		return false
	}
	for i, other := range m.pods {
		if m.blind[other.scheduler] && (s.views[other.scheduler].upTo < c.made || s.pods[i].phase == protocol.Write) {
			return false
		}
	}
	return true
}

// bindSteps binds the pod, unless it is gone.
func (m *model) bindSteps(from *state, p uint8, emit emitter) {
	s := *from
	pod := &s.pods[p]
	if pod.deleted {
		pod.fail()
	} else {
		pod.attempt(protocol.Event{Kind: protocol.PodBound})
	}
	emit(label{doBind, p, uint8(pod.phase)}, &s, "")
}

// failSteps ends an attempt after the reservation was written: another action before the binding fails, or
// the binding itself.
func (m *model) failSteps(from *state, p uint8, emit emitter) {
	if !m.mayFail(from, p) {
		return
	}
	s := *from
	s.failures--
	s.pods[p].fail()
	emit(label{action: doFail, who: p}, &s, "")
}

func (m *model) mayFail(s *state, p uint8) bool {
	return s.failures > 0 && !m.sparedPods[p] && !m.blind[m.pods[p].scheduler]
}

// release takes the claim through its release, and ends the attempt if it has to yield.
func (m *model) release(s *state, p uint8) label {
	pod := &s.pods[p]
	l := label{action: doRelease, who: p}
	used := protocol.NotInUse
	if m.waitsForBindings && s.late.kind == lateBinding && s.late.pod == p {
		used = protocol.InUse
	}
	claim, action := pod.claim.Step(used)
	switch {
	case action == protocol.FindOut:
		l.with = 1
	case action == protocol.RollBackReservation, m.flaws.has(failuresKeep) && pod.phase == protocol.Release:
		m.unreserve(s, p)
	default:
		m.releaseClaim(s, p, pod.plan)
	}
	claim, _ = claim.Step(protocol.Done)
	if pod.phase == protocol.Yield {
		pod.attempt(protocol.Event{Kind: protocol.Yielded})
		return l
	}
	pod.claim = claim
	pod.attempt()
	return l
}
