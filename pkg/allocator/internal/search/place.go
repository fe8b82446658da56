package search

import (
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// placement is a device chosen for a request, with the changes that this made.
type placement struct {
	request *task.Request
	at      location

	shared        bool
	consumed      capacity.Amounts                         // of a shared device
	compatibility map[string]inventory.CompatibilityGroups // the argument for compatibility.restore
	drawn         bool                                     // from counters
}

// placing is the result of place.
type placing int

const (
	placedOK placing = iota
	notAvailable
	constraintViolated
)

// place takes a candidate for a request if counters, compatibility groups, constraints and capacity allow it.
// Otherwise it changes nothing. Errors come from derived attributes.
func (s *Search) place(r *task.Request, at location) (placing, error) {
	p := placement{request: r, at: at, shared: s.shared(at)}
	// A share of a device in use draws nothing more from counters, and admin access draws nothing at all.
	if !r.TakesNothing && bitset.Has(s.pools[at.pool].pool.Partitions, at.device) && !(p.shared && s.inUse(at)) {
		if !s.draw(&p) {
			return notAvailable, nil
		}
	}
	added, err := s.addToConstraints(r, at)
	if err != nil || !added {
		s.rollBack(&p)
		return constraintViolated, err
	}
	// For other modes, try has checked this before; there, a lack of capacity comes before constraints.
	if r.All() && !s.hasRoom(r, at) {
		s.removeFromConstraints(r, len(r.Claim.Constraints))
		s.rollBack(&p)
		return notAvailable, nil
	}
	switch {
	case !p.shared:
		s.taken.add(r, at)
	case !r.TakesNothing:
		p.consumed = s.addShare(r, at)
	}
	s.placed[r.Claim.Index] = append(s.placed[r.Claim.Index], p)
	return placedOK, nil
}

// unplace reverses the last place for the request's claim.
func (s *Search) unplace(r *task.Request) {
	c := r.Claim.Index
	last := len(s.placed[c]) - 1
	p := s.placed[c][last]
	s.placed[c] = s.placed[c][:last]
	switch {
	case !p.shared:
		s.taken.remove(r, p.at)
	case !r.TakesNothing:
		s.removeShare(p.at, p.consumed)
	}
	s.removeFromConstraints(r, len(r.Claim.Constraints))
	s.rollBack(&p)
}

// draw takes the compatibility groups and the counters that a device needs.
func (s *Search) draw(p *placement) bool {
	if s.Settings().Features.CompatibilityGroups {
		undo, ok := s.joinCompatible(p.at)
		if !ok {
			return false
		}
		p.compatibility = undo
	}
	p.drawn = s.pools[p.at.pool].draw(p.at.device)
	if !p.drawn {
		s.compatibility.restore(p.at.pool, p.compatibility)
	}
	return p.drawn
}

func (s *Search) rollBack(p *placement) {
	if p.drawn {
		s.compatibility.restore(p.at.pool, p.compatibility)
		s.pools[p.at.pool].rollBack(p.at.device)
	}
}

// addToConstraints adds a device to all constraints that cover the request, or to none.
func (s *Search) addToConstraints(r *task.Request, at location) (bool, error) {
	constraints := s.constraintsOf(r.Claim)
	for i := range constraints {
		c := &constraints[i]
		if !c.appliesTo(r) {
			continue
		}
		values, found, err := s.valuesFor(r, c, at)
		if err != nil && s.passesOver(err) {
			found, err = false, nil
		}
		if err != nil || !found || !c.add(values) {
			s.removeFromConstraints(r, i)
			return false, err
		}
	}
	return true, nil
}

// removeFromConstraints reverses the adds to the first n constraints.
func (s *Search) removeFromConstraints(r *task.Request, n int) {
	constraints := s.constraintsOf(r.Claim)
	for i := n - 1; i >= 0; i-- {
		if constraints[i].appliesTo(r) {
			constraints[i].remove()
		}
	}
}
