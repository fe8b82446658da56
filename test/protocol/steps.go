package protocol

// action is what happens in a step.
type action uint8

const (
	doPlan action = iota
	doWrite
	doCheck
	doGiveBack
	doUnreserve
	doFail
	doBind
	doSee
	doRelist
	doListRest
	doCrash
	doDelete
	doRemoveDeleted
	doDeliverLate
	doUnpublish
	doPublish
	doStopWaiting
)

// label names a step: what happens to which pod, scheduler or claim, and with what.
type label struct {
	action action
	who    uint8
	with   uint8
}

// emitter takes a step; broken is not empty if the step itself breaks a property.
// It renumbers the state, so the caller must not go on with it.
type emitter func(l label, to *state, broken string)

// steps lists everything that may happen next: each scheduler can go on with each of
// its pods, watches can deliver, and what goes wrong can go wrong now.
func (m *model) steps(from *state, emit emitter) {
	normal := func(l label, to *state, broken string) {
		m.normal(to)
		emit(l, to, broken)
	}
	for p := range m.pods {
		m.podSteps(from, uint8(p), normal)
	}
	for i := range m.schedulers {
		m.schedulerSteps(from, uint8(i), normal)
	}
	m.serverSteps(from, normal)
}

// podSteps are those of the pod's scheduler for this pod.
func (m *model) podSteps(from *state, p uint8, emit emitter) {
	s := *from
	pod, v := &s.pods[p], &s.views[m.pods[p].scheduler]
	switch pod.phase {
	case pending:
		if !pod.deleted {
			m.planSteps(from, p, emit)
		}
	case planned:
		if m.hasRoom(from) {
			m.write(&s, p)
			emit(label{action: doWrite, who: p}, &s, "")
		}
	case written:
		switch {
		case !m.delivered(v, p, pod.at):
		case v.incomplete && !m.flaws.has(unknownPasses):
			// It waits for the pool to be complete, but not for ever.
			pod.phase, pod.at = losing, 0
			emit(label{action: doStopWaiting, who: p}, &s, "")
		default:
			result, broken := m.doCheck(&s, p)
			emit(label{doCheck, p, uint8(result)}, &s, broken)
		}
		m.failSteps(from, p, emit)
	case checked:
		m.bindSteps(from, p, emit)
	case losing, unreserving:
		waits := m.waitsForBindings && from.late.kind == lateBinding && from.late.pod == p
		if m.hasRoom(from) && !waits {
			emit(m.undo(&s, p), &s, "")
		}
	}
}

// planSteps choose devices from what the scheduler knows: those of an allocation that is
// there already, or any that look free.
func (m *model) planSteps(from *state, p uint8, emit emitter) {
	claim := m.pods[p].claim
	v := &from.views[m.pods[p].scheduler]
	plan := func(c choice, joins bool) {
		s := *from
		s.pods[p].phase, s.pods[p].plan, s.pods[p].joins = planned, c, joins
		emit(label{doPlan, p, c}, &s, "")
	}
	if existing := v.claims[claim].allocation; existing != 0 {
		plan(existing, true)
		return
	}
	if m.inFlight(from, m.pods[p].scheduler, claim) != 0 {
		return // another pod of this scheduler is about to allocate the claim
	}
	for _, c := range m.claims[claim] {
		if m.looksFree(from, m.pods[p].scheduler, claim, c) {
			plan(c, false)
		}
	}
}

// inFlight returns the allocation of a claim that the scheduler has decided on, if any. It
// matters until the watch has brought it.
func (m *model) inFlight(s *state, scheduler, claim uint8) choice {
	for p, pod := range m.pods {
		state := &s.pods[p]
		if pod.scheduler != scheduler || pod.claim != claim {
			continue
		}
		switch state.phase {
		case planned, written, checked:
			return state.plan
		case bound:
			if !state.deleted {
				return state.plan
			}
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

// write stores allocation and reservation, or only the reservation.
func (m *model) write(s *state, p uint8) {
	pod := &s.pods[p]
	claim := m.pods[p].claim
	wasAllocated := s.claims[claim].allocation != 0
	switch m.reserve(s, p, pod.plan, pod.joins) {
	case refused:
		if s.claims[claim].reserved&bit(p) != 0 {
			*pod = podState{phase: unreserving, deleted: pod.deleted}
		} else {
			*pod = podState{deleted: pod.deleted}
		}
		return
	case stored:
		pod.at = s.now
	case unchanged:
		pod.at = s.claims[claim].version
		if !m.needsVersions {
			pod.at = s.now
		}
	}
	pod.phase, pod.joins = written, false
	if m.blind[m.pods[p].scheduler] || m.flaws.has(noCheck) || m.flaws.has(joinsUnchecked) && wasAllocated {
		pod.phase, pod.at = checked, 0
	}
}

// delivered is the end of "await": the watch has brought the pod's own write.
func (m *model) delivered(v *view, p uint8, at version) bool {
	return m.flaws.has(noAwait) || v.upTo >= at && v.pending&bit(m.pods[p].claim) == 0
}

// doCheck decides whether the pod may be bound. It says so if that wrongs the pod.
func (m *model) doCheck(s *state, p uint8) (result verdict, broken string) {
	pod, claim := &s.pods[p], m.pods[p].claim
	v := &s.views[m.pods[p].scheduler]
	result = m.check(v, claim, pod.plan)
	pod.at = 0
	switch result {
	case passes:
		pod.phase = checked
	case gone:
		pod.phase = losing
	case wasLate, unsure:
		pod.phase = losing
		if result == wasLate && !m.lostInTruth(v, claim) && !m.onlySafety {
			broken = firstGivesBack
		}
	}
	return result, broken
}

// failSteps end an attempt after the reservation was written: something else that has
// to be done before binding does not work out.
func (m *model) failSteps(from *state, p uint8, emit emitter) {
	if from.failures == 0 || m.sparedPods[p] || m.blind[m.pods[p].scheduler] {
		return
	}
	s := *from
	s.failures--
	s.pods[p].at = 0
	s.pods[p].phase = m.afterFailure()
	emit(label{action: doFail, who: p}, &s, "")
}

// afterFailure is what comes when a pod cannot be bound for a reason other than devices.
func (m *model) afterFailure() phase {
	if m.flaws.has(failuresKeep) {
		return unreserving
	}
	return losing
}

// bindSteps bind the pod, or find out that it must not be bound after all.
func (m *model) bindSteps(from *state, p uint8, emit emitter) {
	s := *from
	pod, scheduler, claim := &s.pods[p], m.pods[p].scheduler, m.pods[p].claim
	v := &s.views[scheduler]
	settling := m.settle && !m.blind[scheduler]
	switch {
	case settling && m.settlesLongEnough && !m.settled(from, p):
		return
	case settling && m.foreignRival(v, claim, pod.plan):
		pod.phase = losing
	case pod.deleted:
		pod.phase = m.afterFailure()
	default:
		pod.phase = bound
	}
	emit(label{doBind, p, uint8(pod.phase)}, &s, "")
}

// settled reports whether everything that a blind scheduler decided before it could see
// the pod's allocation has arrived and was delivered.
func (m *model) settled(s *state, p uint8) bool {
	c := s.claims[m.pods[p].claim]
	if s.views[m.pods[p].scheduler].upTo < s.now {
		return false
	}
	for i, other := range m.pods {
		if m.blind[other.scheduler] && (s.views[other.scheduler].upTo < c.made || s.pods[i].phase == planned) {
			return false
		}
	}
	return true
}

// undo takes back what was written.
func (m *model) undo(s *state, p uint8) label {
	pod := &s.pods[p]
	l := label{action: doGiveBack, who: p}
	if pod.phase == losing {
		m.giveBack(s, p, pod.plan)
	} else {
		l.action = doUnreserve
		m.unreserve(s, p)
	}
	*pod = podState{deleted: pod.deleted}
	return l
}
