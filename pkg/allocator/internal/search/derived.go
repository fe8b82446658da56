package search

import (
	"errors"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// valuesFor returns the values of a device for a constraint: those of the attribute that the request derives
// under that name (DRADerivedAttributes), otherwise those that the driver published. They are valid until the
// next call. found is false if the device does not have the attribute.
func (s *Search) valuesFor(r *task.Request, c *scopedConstraint, at location) (own []attribute.ValueID, found bool, err error) {
	for _, derived := range r.Derived {
		if string(derived.Name) != c.name.Full {
			continue
		}
		device := s.device(at)
		derivedAs, err := s.Settings().Evaluator.Derive(s.ctx, device, derived.Expression)
		if err != nil {
			return nil, false, s.derivationError(r, c, at, err)
		}
		if derivedAs == nil {
			return nil, false, nil
		}
		for _, v := range attribute.Values(derivedAs, c.lists) {
			own = append(own, c.numbering.Number(v))
		}
		return own, true, nil
	}
	own, found = c.numbering.At(at.pool, at.device)
	return own, found, nil
}

// derivationError adds the claim, request and attribute to an error of Derive.
func (s *Search) derivationError(r *task.Request, c *scopedConstraint, at location, err error) error {
	origin := fmt.Sprintf("claim %s request %s derived attribute %s", dra.Of(r.Claim.API), r.Reference(), c.name.Full)
	switch {
	case errors.Is(err, selector.ErrPending):
		// Without the device, because equal nodes should have equal reasons.
		return fmt.Errorf("%s: %w", origin, err)
	case s.ctx.Err() != nil:
		return interrupted(s.ctx)
	}
	return newDeviceError(origin, s.view.Pools[at.pool], at.device, err)
}

// derivationFails reports whether an attribute that a constraint uses cannot be derived for a device that the
// search may try. It returns an error only if that is unknown: if the context ends, or a derivation is Pending.
func (s *Search) derivationFails(c *task.Claim) (bool, error) {
	constraints := s.constraintsOf(c)
	fails := false
	for _, r := range c.RequestsWithDerived() {
		for i := range constraints {
			if !constraints[i].appliesTo(r) || !r.Derives(constraints[i].name.Full) {
				continue
			}
			failing, err := s.derivationFailsFor(r, &constraints[i])
			if err != nil {
				return false, err
			}
			fails = fails || failing
		}
	}
	return fails, nil
}

// derivationFailsFor evaluates the devices of all pools, even if a derivation is Pending, so that all
// derivations are queued.
func (s *Search) derivationFailsFor(r *task.Request, c *scopedConstraint) (fails bool, unknown error) {
	for pool := range s.pools {
		candidates := s.candidates(r, pool)
		if candidates.selection == nil {
			continue
		}
		for device := range candidates.selection.Matches.All() {
			_, _, err := s.valuesFor(r, c, location{pool, device})
			switch {
			case errors.Is(err, ErrInterrupted):
				return false, err
			case errors.Is(err, selector.ErrPending):
				unknown = err
			case err != nil:
				fails = true
				if s.underivable == nil {
					s.underivable = make(map[int]error)
				}
				if s.underivable[r.ID] == nil && candidates.usable.Has(device) {
					s.underivable[r.ID] = err
				}
			}
		}
	}
	return fails, unknown
}

// passesOver reports whether the search skips a device for which the derivation of an attribute failed with
// this error, and goes on.
func (s *Search) passesOver(err error) bool {
	return !s.Settings().AsUpstream && !errors.Is(err, ErrInterrupted) && !errors.Is(err, selector.ErrPending)
}
