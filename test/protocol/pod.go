package protocol

import "github.com/quartermaster-dra/quartermaster/internal/commit"

// attempt takes a pod's attempt through the steps of the protocol, with the events that
// were the results of what it had to do.
func (p *podState) attempt(events ...commit.Event) {
	attempt := commit.Attempt{Phase: p.phase, Claims: []commit.Claim{p.claim}}
	for _, event := range events {
		attempt, _ = commit.Step(attempt, event)
	}
	p.phase, p.claim = attempt.Phase, attempt.Claims[0]
	if p.phase == commit.Failed {
		p.attempt(commit.Event{Kind: commit.Unreserved})
	}
	switch {
	case p.phase == commit.Release && p.claim.Phase == commit.Untouched:
		*p = podState{deleted: p.deleted}
	case p.phase == commit.Bound:
		*p = podState{phase: commit.Bound, plan: p.plan, deleted: p.deleted}
	}
}

// fail ends an attempt that cannot go on.
func (p *podState) fail() {
	p.at, p.noticed = 0, false
	p.attempt(commit.Event{Kind: commit.Failure})
}

// pass goes on from the check with the events of somebody who finds nothing to wait for.
func (p *podState) pass() {
	p.at, p.noticed = 0, false
	p.attempt(commit.Event{Kind: commit.Settled}, commit.Event{Kind: commit.GotReady})
}

// lose is pass for a claim that has lost.
func (p *podState) lose(kind commit.EventKind) {
	p.at, p.noticed = 0, false
	p.attempt(commit.Event{Kind: kind, Lost: []int{0}, AtOnce: true})
}

// settles reports whether the pod's claim settles.
func (m *model) settles(p uint8) bool { return m.settle && !m.blind[m.pods[p].scheduler] }

// podSteps are those of the pod's scheduler for this pod: what its attempt has to do next.
func (m *model) podSteps(from *state, p uint8, emit emitter) {
	switch from.pods[p].phase {
	case commit.Idle:
		if !from.pods[p].deleted {
			m.planSteps(from, p, emit)
		}
	case commit.PreWriteSettle:
		m.preSettleSteps(from, p, emit)
	case commit.Write:
		m.writeSteps(from, p, emit)
	case commit.See:
		m.checkSteps(from, p, emit)
		m.failSteps(from, p, emit)
	case commit.Settle:
		m.settleSteps(from, p, emit)
		m.failSteps(from, p, emit)
	case commit.Bind:
		m.bindSteps(from, p, emit)
		m.failSteps(from, p, emit)
	case commit.Yield, commit.Release:
		if m.hasRoom(from) {
			s := *from
			emit(m.release(&s, p), &s, "")
		}
	}
}

// planSteps choose devices from what the scheduler knows: those of an allocation that is
// there already, or any that look free.
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
	begun := commit.Begin(commit.Claim{})
	pod.phase, pod.claim, pod.plan = begun.Phase, begun.Claims[0], c
	if !joins {
		pod.attempt(commit.Event{Kind: commit.PutInFlight})
	}
	if joins && m.looksBeforeJoining(p) && m.knownToLose(&s, p, c) {
		if m.settles(p) && !m.lostToOurs(&s.views[m.pods[p].scheduler], m.pods[p].claim, c) {
			pod.attempt(commit.Event{Kind: commit.Started, Lost: []int{0}})
		} else {
			pod.lose(commit.Started)
		}
		emit(label{doPlan, p, c}, &s, "")
		return
	}
	pod.attempt(commit.Event{Kind: commit.Started})
	if pod.phase == commit.PreWriteSettle && !m.settles(p) {
		pod.attempt(commit.Event{Kind: commit.Settled})
	}
	emit(label{doPlan, p, c}, &s, "")
}

// looksBeforeJoining reports whether the pod's scheduler looks for conflicts of what is allocated already.
func (m *model) looksBeforeJoining(p uint8) bool {
	return !m.blind[m.pods[p].scheduler] && !m.flaws.has(noCheck) && !m.flaws.has(joinsUnchecked) && !m.flaws.has(joinsLost)
}

// knownToLose reports whether the pod's scheduler knows that the allocation has to yield.
func (m *model) knownToLose(s *state, p uint8, c choice) bool {
	v, claim := &s.views[m.pods[p].scheduler], m.pods[p].claim
	return m.check(v, claim, c) != passes || m.settles(p) && m.foreignConflict(v, claim, c)
}

// inFlight returns the allocation of a claim that the scheduler has decided on, if any. It
// matters until the watch has brought it.
func (m *model) inFlight(s *state, scheduler, claim uint8) choice {
	for p, pod := range m.pods {
		state := &s.pods[p]
		if pod.scheduler != scheduler || pod.claim != claim || state.deleted && state.phase == commit.Bound {
			continue
		}
		if state.claim.InFlight {
			return state.plan
		}
		switch state.phase {
		case commit.Write, commit.See, commit.Settle, commit.Bind, commit.Bound:
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

// preSettleSteps end the wait before the write: at any time, for it is not needed for what
// is modelled here; and with what is planned if that is somebody else's by now.
func (m *model) preSettleSteps(from *state, p uint8, emit emitter) {
	s := *from
	s.pods[p].attempt(commit.Event{Kind: commit.Settled})
	emit(label{action: doPreSettle, who: p}, &s, "")
	v := &from.views[m.pods[p].scheduler]
	if m.overdrawn(v, m.pods[p].claim, from.pods[p].plan, func(*known) bool { return true }) {
		s = *from
		s.pods[p].fail()
		emit(label{doPreSettle, p, 1}, &s, "")
	}
}

// writeSteps store allocation and reservation, or only the reservation.
func (m *model) writeSteps(from *state, p uint8, emit emitter) {
	if !m.hasRoom(from) {
		return
	}
	s := *from
	m.write(&s, p)
	emit(label{action: doWrite, who: p}, &s, "")
	if m.mayFail(from, p) {
		// The answer gets lost, and nobody knows whether it was carried out.
		s = *from
		s.failures--
		m.reserve(&s, p, s.pods[p].plan, !s.pods[p].claim.InFlight)
		s.pods[p].fail()
		emit(label{doFail, p, 1}, &s, "")
	}
}

// write is writeSteps if the answer comes.
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
	pod.attempt(commit.Event{Kind: commit.Written})
	pod.at = at
	if m.blind[m.pods[p].scheduler] || m.flaws.has(noCheck) || m.flaws.has(joinsUnchecked) && wasAllocated {
		pod.attempt(commit.Event{Kind: commit.Seen}, commit.Event{Kind: commit.Checked})
		pod.pass()
	}
}

// delivered reports whether the watch has brought the pod's own write.
func (m *model) delivered(v *view, p uint8, at version) bool {
	return m.flaws.has(noAwait) || v.upTo >= at && v.pending&bit(m.pods[p].claim) == 0
}

// checkSteps decide whether the pod may be bound, once the watch has brought what is needed
// for that.
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

// doCheck tells the attempt what comes out of the check. It says so if that wrongs the pod.
func (m *model) doCheck(s *state, p uint8) (result verdict, broken string) {
	pod, claim := &s.pods[p], m.pods[p].claim
	v := &s.views[m.pods[p].scheduler]
	result = m.check(v, claim, pod.plan)
	if result == wasLate && !m.lostInTruth(v, claim) && !m.onlySafety {
		broken = firstReleases
	}
	pod.attempt(commit.Event{Kind: commit.Seen})
	switch {
	case result == gone:
		pod.fail()
	case result != passes && (!m.settles(p) || m.lostToOurs(v, claim, pod.plan)):
		pod.lose(commit.Checked)
	case result != passes:
		pod.at = 0
		pod.attempt(commit.Event{Kind: commit.Checked, Lost: []int{0}})
	default:
		pod.at = 0
		pod.attempt(commit.Event{Kind: commit.Checked})
	}
	if pod.phase == commit.Settle && !m.settles(p) {
		pod.pass()
	}
	return result, broken
}

// settleSteps notice non-participating schedulers, and end the wait for these.
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
		pod.lose(commit.Settled)
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
		if m.blind[other.scheduler] && (s.views[other.scheduler].upTo < c.made || s.pods[i].phase == commit.Write) {
			return false
		}
	}
	return true
}

// bindSteps bind the pod, unless it is gone.
func (m *model) bindSteps(from *state, p uint8, emit emitter) {
	s := *from
	pod := &s.pods[p]
	if pod.deleted {
		pod.fail()
	} else {
		pod.attempt(commit.Event{Kind: commit.PodBound})
	}
	emit(label{doBind, p, uint8(pod.phase)}, &s, "")
}

// failSteps end an attempt after the reservation was written: something else that has
// to be done before binding does not work out, or the binding itself.
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
	used := commit.NotInUse
	if m.waitsForBindings && s.late.kind == lateBinding && s.late.pod == p {
		used = commit.InUse
	}
	claim, action := pod.claim.Step(used)
	switch {
	case action == commit.FindOut:
		l.with = 1
	case action == commit.RollBackReservation, m.flaws.has(failuresKeep) && pod.phase == commit.Release:
		m.unreserve(s, p)
	default:
		m.releaseClaim(s, p, pod.plan)
	}
	claim, _ = claim.Step(commit.Done)
	if pod.phase == commit.Yield {
		pod.attempt(commit.Event{Kind: commit.Yielded})
		return l
	}
	pod.claim = claim
	pod.attempt()
	return l
}
