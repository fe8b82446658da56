package allocator

import (
	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// placement is a device that was chosen for a request, and what that changed.
type placement struct {
	request *request
	at      location

	shared   bool
	consumed amounts               // of a shared device
	groups   map[string]groupState // what compatibility.restore needs
	drawn    bool                  // from counters
}

// placing is the outcome of place.
type placing int

const (
	placedOK placing = iota
	notAvailable
	constraintViolated
)

// place takes a candidate for a request if counters, compatibility groups,
// constraints and capacity allow it. If they do not, nothing has changed. Errors
// are those of derived attributes.
func (s *search) place(r *request, at location) (placing, error) {
	device := s.device(at)
	p := placement{request: r, at: at, shared: s.shared(device)}
	// A share of a device in use draws nothing more from counters.
	if len(device.ConsumesCounters) > 0 && !(p.shared && s.inUse(at, device)) {
		if !s.draw(&p, device) {
			return notAvailable, nil
		}
	}
	added, err := s.addToConstraints(r, device)
	if err != nil || !added {
		s.giveBack(&p, device)
		return constraintViolated, err
	}
	// For other modes try has asked this before: there, too little capacity comes
	// before constraints.
	if r.all() && !s.hasRoom(r, at, device) {
		s.removeFromConstraints(r, len(s.constraintsOf(r.claim)))
		s.giveBack(&p, device)
		return notAvailable, nil
	}
	if p.shared {
		p.consumed = s.addShare(r, at, device)
	} else {
		s.taken.add(r.claim.index, at)
	}
	s.placed[r.claim.index] = append(s.placed[r.claim.index], p)
	return placedOK, nil
}

// unplace undoes the last place for the request's claim.
func (s *search) unplace(r *request) {
	c := r.claim.index
	last := len(s.placed[c]) - 1
	p := s.placed[c][last]
	s.placed[c] = s.placed[c][:last]
	if p.shared {
		s.removeShare(p.at, p.consumed)
	} else {
		s.taken.remove(c, p.at)
	}
	s.removeFromConstraints(r, len(s.constraintsOf(r.claim)))
	s.giveBack(&p, s.device(p.at))
}

// draw takes what a device needs of counter sets: room for its compatibility
// groups, and the counters themselves.
func (s *search) draw(p *placement, device *inventory.Device) bool {
	if s.solver.Features.CompatibilityGroups {
		undo, ok := s.compatibility.join(s.site, p.at, device)
		if !ok {
			return false
		}
		p.groups = undo
	}
	p.drawn = s.drawn.draw(s.site, p.at.pool, device)
	if !p.drawn {
		s.compatibility.restore(p.at.pool, p.groups)
	}
	return p.drawn
}

func (s *search) giveBack(p *placement, device *inventory.Device) {
	if p.drawn {
		s.compatibility.restore(p.at.pool, p.groups)
		s.drawn.giveBack(p.at.pool, device)
	}
}

// addToConstraints adds a device to all constraints that cover the request, or to none.
func (s *search) addToConstraints(r *request, device *inventory.Device) (bool, error) {
	constraints := s.constraintsOf(r.claim)
	for i := range constraints {
		c := &constraints[i]
		if !c.appliesTo(r) {
			continue
		}
		attribute, err := s.attribute(r, device, c.name)
		if err != nil || attribute == nil || !c.add(attribute) {
			s.removeFromConstraints(r, i)
			return false, err
		}
	}
	return true, nil
}

// removeFromConstraints undoes the adds to the first n constraints.
func (s *search) removeFromConstraints(r *request, n int) {
	constraints := s.constraintsOf(r.claim)
	for i := n - 1; i >= 0; i-- {
		if constraints[i].appliesTo(r) {
			constraints[i].remove()
		}
	}
}

// takenDevices are the devices chosen so far, by claim and pool.
type takenDevices struct {
	byClaim [][]bitset.Set
	byAny   []bitset.Set
}

func newTakenDevices(claims int, pools []*inventory.NodePool, bits *bitset.Arena) takenDevices {
	rows := 1
	if claims > 1 {
		rows += claims
	}
	sets := make([]bitset.Set, 0, rows*len(pools))
	for range rows {
		for _, pool := range pools {
			sets = append(sets, bits.New(len(pool.Devices)))
		}
	}
	t := takenDevices{byAny: sets[:len(pools)], byClaim: make([][]bitset.Set, claims)}
	if claims == 1 {
		t.byClaim[0] = t.byAny // With one claim, both are the same.
		return t
	}
	for c := range t.byClaim {
		t.byClaim[c] = sets[(c+1)*len(pools) : (c+2)*len(pools)]
	}
	return t
}

// forRequest reports whether a device cannot be chosen because it was already:
// by any claim, or, with admin access, by the same claim.
func (t *takenDevices) forRequest(r *request, at location) bool {
	return t.against(r)[at.pool].Has(at.device)
}

// against returns the devices, by pool, that a request cannot have any more.
func (t *takenDevices) against(r *request) []bitset.Set {
	if r.admin {
		return t.byClaim[r.claim.index]
	}
	return t.byAny
}

func (t *takenDevices) add(claim int, at location) {
	t.byClaim[claim][at.pool].Add(at.device)
	t.byAny[at.pool].Add(at.device)
}

// remove undoes add. With admin access another claim may have the device as well.
func (t *takenDevices) remove(claim int, at location) {
	t.byClaim[claim][at.pool].Remove(at.device)
	for _, pools := range t.byClaim {
		if pools[at.pool].Has(at.device) {
			return
		}
	}
	t.byAny[at.pool].Remove(at.device)
}

// bySameClaims reports whether two devices were taken by the same claims.
func (t *takenDevices) bySameClaims(a, b location) bool {
	for _, pools := range t.byClaim {
		if pools[a.pool].Has(a.device) != pools[b.pool].Has(b.device) {
			return false
		}
	}
	return true
}
