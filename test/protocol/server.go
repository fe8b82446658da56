package protocol

import "github.com/quartermaster-dra/quartermaster/internal/commit/protocol"

// hasRoom reports whether the server accepts another write: not while a watch is as far behind as
// the configuration permits.
func (m *model) hasRoom(s *state) bool { return int(s.lag) < m.lag }

// store is the only way to change a claim: the claim gets the next version, and the watches get an
// event.
func (s *state) store(claim uint8, c claimState) {
	s.now++
	c.version = s.now
	switch {
	case c.allocation == 0:
		c.made, c.foreign, c.reserved = 0, false, 0
	case s.claims[claim].allocation == 0:
		c.made = s.now
	}
	s.claims[claim] = c
	c.reserved = 0
	s.events[s.lag] = event{claim, c}
	s.lag++
}

func bit(pod uint8) uint8 { return 1 << pod }

// outcome is the result of a write.
type outcome uint8

const (
	stored outcome = iota
	unchanged
	refused
)

// reserve models commit.Writer.Bind: allocation and reservation in one write, or only the
// reservation. In reality Bind reads, decides and writes under the resourceVersion that it has
// read, again and again until there is no conflict. That is equivalent to deciding and writing at
// once.
func (m *model) reserve(s *state, p uint8, plan choice, joins bool) outcome {
	claim := m.pods[p].claim
	c := s.claims[claim]
	switch {
	case c.allocation == 0 && joins, c.allocation != 0 && c.allocation != plan:
		return refused
	case c.allocation != 0 && c.reserved&bit(p) != 0 && (!m.lateRequests || m.flaws.has(noFence)):
		return unchanged
	}
	if c.allocation == 0 {
		c.allocation, c.foreign = plan, m.blind[m.pods[p].scheduler]
	}
	c.reserved |= bit(p)
	s.store(claim, c)
	return stored
}

// releaseClaim models claimwriter.Writer.Release: it removes the reservation, and if it was the
// last one, also the allocation. It does not touch an allocation other than the judged one.
func (m *model) releaseClaim(s *state, p uint8, judged choice) {
	claim := m.pods[p].claim
	c := s.claims[claim]
	if c.allocation == 0 || c.allocation != judged {
		return
	}
	others := c.reserved &^ bit(p)
	if others == 0 {
		c.allocation = 0
	} else if others == c.reserved {
		return
	}
	c.reserved = others
	s.store(claim, c)
}

// unreserve models commit.Writer.Unreserve: it removes only the reservation.
func (m *model) unreserve(s *state, p uint8) {
	claim := m.pods[p].claim
	c := s.claims[claim]
	if c.reserved&bit(p) == 0 {
		return
	}
	c.reserved &^= bit(p)
	s.store(claim, c)
}

// removeDeleted models the resource claim controller: pods that are gone lose their reservation,
// and with the last reservation the claim loses its allocation.
func (m *model) removeDeleted(s *state, claim uint8) bool {
	c := s.claims[claim]
	left := c.reserved
	for p := range m.pods {
		if s.pods[p].deleted {
			left &^= bit(uint8(p))
		}
	}
	if left == c.reserved {
		return false
	}
	if c.reserved = left; left == 0 {
		c.allocation = 0
	}
	s.store(claim, c)
	return true
}

// deliverLate lets a request of a dead process arrive. The server refuses writes that
// are based on an older version of the claim; bindings carry none.
func (m *model) deliverLate(s *state) {
	r := s.late
	s.late = request{}
	p := &s.pods[r.pod]
	if r.kind == lateBinding {
		if !p.deleted && p.phase != protocol.Bound {
			// The server stores the pod's node; the choice stands for it.
			*p = podState{phase: protocol.Bound, plan: r.plan}
		}
		return
	}
	if s.claims[m.pods[r.pod].claim].version != r.base {
		return
	}
	switch r.kind {
	case lateWrite:
		m.reserve(s, r.pod, r.plan, r.joins)
	case lateRelease:
		m.releaseClaim(s, r.pod, r.plan)
	case lateUnreserve:
		m.unreserve(s, r.pod)
	}
}
