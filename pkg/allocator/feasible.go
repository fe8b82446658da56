package allocator

import "slices"

// maxDemands is how many requests a feasibility check can look at: a bit each.
const maxDemands = 64

const (
	// checkSteps is what a feasibility check that found something impossible counts
	// in a search's budget. It looks at all devices, where a step looks at one.
	checkSteps = 10
	// maxPause is the greatest number of steps between two checks.
	maxPause = 63
)

// demand is a request that still needs devices.
type demand struct {
	request *request
	missing int
	start   location // devices before it are out of the question
}

// supply is a number of devices which the same demands can use.
type supply struct {
	users uint64 // a bit for each demand
	count int
}

// feasible reports whether all that is missing could still be had if counters,
// capacity and alternatives were no concern: for a request that is missing some
// devices from start on, and for everything after it. It asks this for no
// constraint, and for each matchAttribute alone with each value that the devices
// could agree on. "No" is certain; where none of these things matters, so is "yes".
//
// A search asks once it had to turn back: only then it is likely that it is about
// to go in circles. As long as the answer is "yes" and yet it has to turn back, the
// reason is something else, and it asks less and less often.
func (s *search) feasible(r *request, slot, missing int, start location) bool {
	if s.steps < s.nextCheck || !s.interchangeable() {
		return true // With errors ahead, these are the better answer.
	}
	demands, ok := s.demands(r, slot, missing, start)
	if !ok {
		return true
	}
	if s.impossible(demands) {
		s.hopeless++
		s.pause = 0
		return false
	}
	s.pause = min(2*s.pause+1, maxPause)
	s.nextCheck = s.steps + s.pause
	return true
}

func (s *search) impossible(demands []demand) bool {
	if !s.canSupply(demands, nil, value{}) {
		return true
	}
	for _, constraints := range s.constraints {
		for i := range constraints {
			if constraints[i].api.MatchAttribute != nil && !s.canAgree(demands, &constraints[i]) {
				return true
			}
		}
	}
	return false
}

// demands lists what is missing: of a request, and of all later ones that have no
// alternatives. ok is false if a device ahead is failing, because the search then
// has to get there.
func (s *search) demands(r *request, slot, missing int, start location) (demands []demand, ok bool) {
	add := func(d demand, alone bool) bool {
		if s.hasFailing(d.request) {
			return false
		}
		// With admin access nothing is taken away from others. For allocation mode
		// All there is no choice. Which alternative it will be, nobody knows.
		if alone && !d.request.admin && !d.request.all() {
			demands = append(demands, d)
		}
		return len(demands) <= maxDemands
	}
	if !add(demand{r, missing, start}, true) {
		return nil, false
	}
	for _, c := range s.claims[r.claim.index:] {
		for i := range c.slots {
			if c == r.claim && i <= slot {
				continue
			}
			for _, next := range c.slots[i].alternatives {
				if !add(demand{request: next, missing: s.count[next.id]}, len(c.slots[i].alternatives) == 1) {
					return nil, false
				}
			}
		}
	}
	return demands, true
}

// hasFailing reports whether the search could come to a failing device for a request.
func (s *search) hasFailing(r *request) bool {
	for pool := range s.site.Pools {
		failing, taken := s.candidates(r.id, pool).failing, s.taken.byAny[pool]
		if r.admin {
			taken = nil
		}
		if failing.LenWithout(taken, 0) > 0 {
			return true
		}
	}
	return false
}

// canAgree reports whether there is a value on which all devices of a
// matchAttribute can agree so that there are enough.
func (s *search) canAgree(demands []demand, c *scopedConstraint) bool {
	covered := false
	for i := range demands {
		if r := demands[i].request; demands[i].missing > 0 && c.coversClaimOf(r) && c.appliesTo(r) {
			if len(r.derived) > 0 {
				return true // Sees other values than the published ones.
			}
			covered = true
		}
	}
	if !covered {
		return true
	}
	tried := make(map[value]bool)
	for pool := range s.site.Pools {
		for device := range s.site.Pools[pool].Devices {
			values, known := s.agreeable(c, location{pool, device})
			if !known {
				return true
			}
			for _, v := range values {
				if tried[v] {
					continue
				}
				tried[v] = true
				if s.canSupply(demands, c, v) {
					return true
				}
			}
		}
	}
	return false
}

// agreeable returns the values of a device on which it and those chosen already
// can agree. known is false for a value of a type that is not understood: a first
// device may have one.
func (s *search) agreeable(c *scopedConstraint, at location) (agreed []value, known bool) {
	attribute := c.name.lookup(s.device(at))
	if attribute == nil {
		return nil, true
	}
	own := values(attribute, c.lists)
	if m := c.constraint.(*matchAttribute); len(m.agreed) > 0 {
		return common(m.agreed[len(m.agreed)-1], own), true
	}
	return own, c.lists || len(own) > 0
}

// canSupply reports whether there are devices for all demands at once. If a
// constraint is given, the requests that it covers only get devices with a value.
func (s *search) canSupply(demands []demand, c *scopedConstraint, v value) bool {
	var covered uint64
	needs := make([]int, len(demands))
	for i := range demands {
		needs[i] = demands[i].missing
		if c != nil && c.coversClaimOf(demands[i].request) && c.appliesTo(demands[i].request) {
			covered |= 1 << i
		}
	}
	var supplies []supply
	for pool := range s.site.Pools {
		for device := range s.site.Pools[pool].Devices {
			at := location{pool, device}
			users := s.users(demands, at)
			if users&covered != 0 && !s.hasValue(c, v, at) {
				users &^= covered
			}
			switch {
			case users == 0:
			case s.shared(s.device(at)):
				for i := range needs {
					if users&(1<<i) != 0 {
						needs[i]-- // Each request can have a share of it.
					}
				}
			default:
				supplies = addSupply(supplies, users)
			}
		}
	}
	return satisfiable(needs, supplies)
}

func (s *search) hasValue(c *scopedConstraint, v value, at location) bool {
	agreed, _ := s.agreeable(c, at)
	return slices.Contains(agreed, v)
}

// users returns which demands can use a device.
func (s *search) users(demands []demand, at location) uint64 {
	if s.taken.byAny[at.pool].Has(at.device) {
		return 0
	}
	var users uint64
	for i := range demands {
		d := &demands[i]
		c := s.candidates(d.request.id, at.pool)
		if c.usable != nil && c.usable.Has(at.device) && !at.before(d.start) {
			users |= 1 << i
		}
	}
	return users
}

func (l location) before(other location) bool {
	return l.pool < other.pool || l.pool == other.pool && l.device < other.device
}

func addSupply(supplies []supply, users uint64) []supply {
	for i := range supplies {
		if supplies[i].users == users {
			supplies[i].count++
			return supplies
		}
	}
	return append(supplies, supply{users, 1})
}
