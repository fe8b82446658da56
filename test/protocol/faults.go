package protocol

import "github.com/quartermaster-dra/quartermaster/internal/commit/protocol"

// schedulerSteps emits the steps of a scheduler's watch, and its crashes.
func (m *model) schedulerSteps(from *state, i uint8, emit emitter) {
	v := &from.views[i]
	if v.pending != 0 {
		for claim := range m.claims {
			if v.pending&bit(uint8(claim)) != 0 {
				s := *from
				m.list(&s, &s.views[i], uint8(claim), false)
				s.views[i].pending &^= bit(uint8(claim))
				emit(label{doListRest, i, uint8(claim)}, &s, "")
			}
		}
	} else if v.upTo < from.now {
		if m.isAhead(from, v) {
			s := *from
			s.see(int(i))
			emit(label{action: doSee, who: i}, &s, "")
		}
		if from.relists > 0 {
			s := *from
			s.relists--
			m.relist(&s, int(i), false)
			emit(label{action: doRelist, who: i}, &s, "")
		}
	}
	switch {
	case v.incomplete:
		s := *from
		s.views[i].incomplete = false
		emit(label{action: doPublish, who: i}, &s, "")
	case from.republishes > 0:
		s := *from
		s.republishes--
		s.views[i].incomplete = true
		emit(label{action: doUnpublish, who: i}, &s, "")
	}
	if from.crashes > 0 && !m.blind[i] && !m.sparedSchedulers[i] {
		m.crashSteps(from, i, emit)
	}
}

// isAhead reports whether there is an event that the watch has not delivered.
func (m *model) isAhead(s *state, v *view) bool {
	return s.lag > 0 && s.events[s.lag-1].to.version > v.upTo
}

// crashSteps ends the process of a scheduler. It forgets everything and starts again with a list of
// the present. A process that starts later is the same as one that starts at once and does nothing
// for a while. The last request of the dead process may be lost, may have arrived (then it is the
// step before), or may be on its way.
func (m *model) crashSteps(from *state, i uint8, emit emitter) {
	s := *from
	s.crashes--
	for p, pod := range m.pods {
		if pod.scheduler == i && s.pods[p].phase != protocol.Bound {
			s.pods[p] = podState{deleted: s.pods[p].deleted}
		}
	}
	m.relist(&s, int(i), true)
	after := s
	emit(label{action: doCrash, who: i}, &after, "")
	if from.late.kind != noRequest {
		return
	}
	for p, pod := range m.pods {
		if r := m.underWay(from, uint8(p)); pod.scheduler == i && r.kind != noRequest {
			after = s
			after.late = r
			emit(label{doCrash, i, uint8(r.kind)}, &after, "")
		}
	}
}

// underWay returns the request that the scheduler may just have sent for a pod.
func (m *model) underWay(s *state, p uint8) request {
	pod := s.pods[p]
	r := request{pod: p, base: s.claims[m.pods[p].claim].version, plan: pod.plan, joins: !pod.claim.InFlight}
	switch pod.phase {
	case protocol.Write:
		r.kind = lateWrite
	case protocol.Yield, protocol.Release:
		r.kind, r.joins = lateRelease, false
		if pod.claim.Takes == protocol.Reservation {
			r.kind = lateUnreserve
		}
	case protocol.Bind:
		r.kind, r.base, r.joins = lateBinding, 0, false
	}
	if r.kind == lateBinding && !m.lateBindings || r.kind != lateBinding && !m.lateRequests {
		return request{}
	}
	return r
}

// serverSteps emits deletions, the steps of the resource claim controller, and late requests.
func (m *model) serverSteps(from *state, emit emitter) {
	for p := range m.pods {
		if from.deletions > 0 && !from.pods[p].deleted && !m.sparedPods[uint8(p)] {
			s := *from
			s.deletions--
			s.pods[p].deleted = true
			emit(label{action: doDelete, who: uint8(p)}, &s, "")
		}
	}
	if !m.hasRoom(from) {
		return
	}
	for claim := range m.claims {
		s := *from
		if m.removeDeleted(&s, uint8(claim)) {
			emit(label{action: doRemoveDeleted, who: uint8(claim)}, &s, "")
		}
	}
	if from.late.kind != noRequest {
		s := *from
		m.deliverLate(&s)
		emit(label{doDeliverLate, from.late.pod, uint8(from.late.kind)}, &s, "")
	}
}
