package protocol

// see delivers the next event to a watch. There must be one.
func (s *state) see(scheduler int) {
	v := &s.views[scheduler]
	for _, e := range s.events[:s.lag] {
		if e.to.version <= v.upTo {
			continue
		}
		v.upTo = e.to.version
		k := &v.claims[e.claim]
		if e.to.version <= k.version {
			return // a list has delivered it already
		}
		if e.to.allocation == 0 {
			k.written = span{}
		} else if k.allocation == 0 {
			k.written = span{e.to.version, e.to.version}
		}
		k.claimState = e.to
		return
	}
}

// relist brings a watch to the present without the order of the changes. fresh means that nothing was
// known before.
func (m *model) relist(s *state, scheduler int, fresh bool) {
	v := &s.views[scheduler]
	for claim := range m.claims {
		if !fresh && m.flaws.has(listsPiecemeal) {
			v.pending |= bit(uint8(claim))
		} else {
			m.list(s, v, uint8(claim), fresh)
		}
	}
	v.upTo = s.now
}

// list applies a list's state of one claim. The known order is as in internal/cluster/allocationlog: a
// new allocation was made after the delivered writes and not after the version of the claim; a known
// allocation may have been replaced by an equal one.
func (m *model) list(s *state, v *view, claim uint8, fresh bool) {
	c, k := s.claims[claim], &v.claims[claim]
	c.reserved = 0
	before := *k
	if fresh {
		before, k.written = known{}, span{}
	}
	k.claimState = c
	switch {
	case c.allocation == 0:
		k.written = span{}
	case m.flaws.has(listsExact):
		k.written = span{c.version, c.version}
	case before.allocation == c.allocation && (before.version == c.version || m.flaws.has(listsKeepOrder)):
		// The same allocation as before.
	case before.allocation == c.allocation:
		k.written.last = c.version
	case fresh:
		k.written = span{0, c.version}
	default:
		k.written = span{v.upTo + 1, c.version}
	}
}

// order is the order of two allocations, as far as it is known.
type order uint8

const (
	unknown order = iota
	earlier
	later
)

// orderOf returns whether the other allocation was made before or after the own one.
func (m *model) orderOf(other, own *known) order {
	a, b := other.written, own.written
	if m.flaws.has(byReservation) {
		a, b = span{other.version, other.version}, span{own.version, own.version}
	}
	switch {
	case a.last < b.first:
		return earlier
	case a.first > b.last:
		return later
	default:
		return unknown
	}
}

// overdrawn reports whether the claim draws on a resource that has too little for it and those other
// claims of the view that count.
func (m *model) overdrawn(v *view, claim uint8, own choice, counts func(other *known) bool) bool {
	for resource, units := range m.takes[own] {
		if units == 0 || v.incomplete && m.isCounted[resource] {
			continue
		}
		sum := units
		for i := range m.claims {
			other := &v.claims[i]
			if uint8(i) != claim && other.allocation != 0 && counts(other) {
				sum += m.takes[other.allocation][resource]
			}
		}
		if sum > m.units[resource] {
			return true
		}
	}
	return false
}

// verdict is the result of the check.
type verdict uint8

const (
	passes  verdict = iota
	gone            // the claim is not allocated as planned any more
	wasLate         // an earlier allocation conflicts
	unsure          // an allocation that may be earlier conflicts
)

// check is the heart of the protocol: it decides whether the claim has to yield, as far as this
// scheduler knows.
func (m *model) check(v *view, claim uint8, plan choice) verdict {
	own := &v.claims[claim]
	if own.allocation != plan {
		if m.flaws.has(missingPasses) {
			return passes
		}
		return gone
	}
	switch {
	case m.overdrawn(v, claim, plan, func(other *known) bool { return m.orderOf(other, own) == earlier }):
		return wasLate
	case m.overdrawn(v, claim, plan, func(other *known) bool { return m.orderOf(other, own) != later }):
		return unsure
	default:
		return passes
	}
}

// lostInTruth is the check with the true versions of all allocations.
func (m *model) lostInTruth(v *view, claim uint8) bool {
	own := &v.claims[claim]
	return m.overdrawn(v, claim, own.allocation, func(other *known) bool { return other.made < own.made })
}

// lostToOurs reports whether the claim has to yield to claims of schedulers that take part
// in the protocol.
func (m *model) lostToOurs(v *view, claim uint8, plan choice) bool {
	own := &v.claims[claim]
	return m.overdrawn(v, claim, plan, func(other *known) bool { return !other.foreign && m.orderOf(other, own) != later })
}

// foreignConflict reports whether the claim, having passed the check, conflicts with an allocation of
// a scheduler that does not follow the protocol, in whatever order.
func (m *model) foreignConflict(v *view, claim uint8, plan choice) bool {
	own := &v.claims[claim]
	return m.overdrawn(v, claim, plan, func(other *known) bool {
		return other.foreign || m.orderOf(other, own) != later
	})
}
