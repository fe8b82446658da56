package search

// drawAlike reports whether two devices of one class are interchangeable, given the counter sets that they
// draw from. tried comes before at; no device before start is tried in their place.
//
// For different sets, consider the swap of each device of one with its counterpart in the other. It turns a
// solution with at in this place into one with tried. The search would have found that solution: its devices
// for this place are not before start, because no device of the second set is, and those of the first set
// replace devices that follow at.
func (s *Search) drawAlike(tried, at location, start cursor) bool {
	mine, other, differ := s.ownSets(at, tried)
	if !differ {
		return true
	}
	sets := Of(s.view.Pools[at.pool])
	first := sets.Users[mine][0]
	if start.pool == at.pool && first < start.device {
		return false
	}
	return s.sameState(sets, location{at.pool, other}, location{at.pool, mine})
}

// ownSets returns the counter sets of two devices of one class that draw from one set each. differ is false
// if both draw from the same set, or from several sets, which are part of the class.
func (s *Search) ownSets(a, b location) (setA, setB int, differ bool) {
	counters := s.view.Pools[a.pool].Counters
	draws := counters.Draws(a.device)
	if len(draws) != 1 {
		return 0, 0, false
	}
	setA, setB = draws[0].Set, counters.Draws(b.device)[0].Set
	return setA, setB, setA != setB
}

// sameState reports whether two counter sets, given as pool and set, are interchangeable.
func (s *Search) sameState(sets *Partitions, a, b location) bool {
	usersA, usersB := sets.Users[a.device], sets.Users[b.device]
	p := &s.pools[a.pool]
	if !sets.Alone[a.device] || !sets.Alone[b.device] || len(usersA) != len(usersB) || !p.sameLeft(a.device, b.device) {
		return false
	}
	for i := range usersA {
		x, y := location{a.pool, usersA[i]}, location{b.pool, usersB[i]}
		if s.classNumber(x) != s.classNumber(y) || !s.taken.bySameClaims(x, y) {
			return false
		}
	}
	if !s.Settings().Features.CompatibilityGroups {
		return true
	}
	groups, names := s.compatibilityGroupsIn(a.pool), p.pool.Counters.Sets
	return groups[names[a.device]].Equal(groups[names[b.device]])
}
