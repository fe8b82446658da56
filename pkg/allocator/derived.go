package allocator

// requestsWithDerived returns the requests and alternatives of the claim that
// derive attributes of their own (DRADerivedAttributes).
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
func (s *search) derivationFails(c *claim, constraints []scopedConstraint) bool {
	for _, r := range c.requestsWithDerived() {
		for i := range constraints {
			if constraints[i].appliesTo(r) && s.derivationFailsFor(r, constraints[i].name) {
				return true
			}
		}
	}
	return false
}

func (s *search) derivationFailsFor(r *request, name attributeName) bool {
	for i := range s.site.Pools {
		c := s.candidates(r.id, i)
		if c.selection == nil {
			continue
		}
		for device := range c.selection.Matches.All() {
			if _, err := s.attribute(r, &s.site.Pools[i].Devices[device], name); err != nil {
				return true
			}
		}
	}
	return false
}
