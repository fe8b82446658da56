package allocator

import (
	"fmt"

	"github.com/quartermaster-dra/quartermaster/pkg/claimname"
)

// valuesFor returns the values that a device has for a constraint, until the next
// call: of the attribute that the request derives under that name
// (DRADerivedAttributes), else of what the driver published. found is false if the
// device does not have the attribute.
func (s *search) valuesFor(r *request, c *scopedConstraint, at location) (own []valueID, found bool, err error) {
	for _, derived := range r.derived {
		if string(derived.Name) != c.name.full {
			continue
		}
		device := s.device(at)
		attribute, err := s.solver.Evaluator.Derive(s.ctx, device, derived.Expression)
		if err != nil {
			origin := fmt.Sprintf("claim %s, request %s, derived attribute %s", claimname.Of(r.claim.api), r.reference(), c.name.full)
			return nil, false, newDeviceError(origin, s.site.Pools[at.pool], at.device, err)
		}
		if attribute == nil {
			return nil, false, nil
		}
		for _, v := range values(attribute, c.lists) {
			own = append(own, c.numbering.number(v))
		}
		return own, true, nil
	}
	own, found = c.numbering.of(at)
	return own, found, nil
}

// derives reports whether the request derives the attribute of a constraint itself.
func (r *request) derives(c *scopedConstraint) bool {
	for _, derived := range r.derived {
		if string(derived.Name) == c.name.full {
			return true
		}
	}
	return false
}

// requestsWithDerived returns the requests and alternatives of the claim that
// derive attributes of their own.
func (c *claim) requestsWithDerived() []*request {
	var result []*request
	for _, slot := range c.slots {
		for _, r := range slot.alternatives {
			if len(r.derived) > 0 {
				result = append(result, r)
			}
		}
	}
	return result
}

// derivationFails reports whether an attribute that a constraint looks at cannot be
// derived for a device which the search may try.
func (s *search) derivationFails(c *claim) bool {
	constraints := s.constraintsOf(c)
	for _, r := range c.requestsWithDerived() {
		for i := range constraints {
			if constraints[i].appliesTo(r) && s.derivationFailsFor(r, &constraints[i]) {
				return true
			}
		}
	}
	return false
}

func (s *search) derivationFailsFor(r *request, c *scopedConstraint) bool {
	for pool := range s.pools {
		candidates := s.candidates(r, pool)
		if candidates.selection == nil {
			continue
		}
		for device := range candidates.selection.Matches.All() {
			if _, _, err := s.valuesFor(r, c, location{pool, device}); err != nil {
				return true
			}
		}
	}
	return false
}
