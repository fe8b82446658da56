package search

import (
	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
)

// demand is a request that still needs devices.
type demand struct {
	request *task.Request
	missing int
	start   cursor // candidates before it are excluded
}

// impossible reports whether there cannot be enough devices for the current demand (if it has a request), for
// the requests of its claim after a slot, and for all later claims. Deeper in the search there are never more
// devices than now.
func (s *Search) impossible(current demand, c *task.Claim, slot int) bool {
	if s.unpruned {
		return false
	}
	s.memory.demands = s.memory.demands[:0]
	if current.request != nil {
		if !s.addDemand(current) {
			return false
		}
	}
	if s.collectDemands(c, slot) {
		return true
	}
	demands := s.memory.demands
	if !s.canSupply(demands, nil, 0) {
		return true
	}
	for i := c.FirstConstraint; i < len(s.constraints); i++ {
		if !s.canSatisfy(demands, &s.constraints[i]) {
			return true
		}
	}
	return false
}

// collectDemands collects the demands after a slot, up to a request where the search could end with an error,
// because the search then has to get there. impossible is true if a request cannot be satisfied even alone.
// Requests with several alternatives are not demands, because the choice is still open.
func (s *Search) collectDemands(c *task.Claim, slot int) (impossible bool) {
	for _, next := range s.Claims()[c.Index:] {
		for i := range next.Slots {
			if next == c && i <= slot || s.doubted[next.Slots[i].ID] {
				continue
			}
			possible := false
			for _, r := range next.Slots[i].Alternatives {
				if s.mayErr(r) {
					return false
				}
				possible = possible || s.possibleAlone(r)
			}
			if !possible {
				return true
			}
			if only := next.Slots[i].Alternatives; len(only) == 1 && !s.addDemand(demand{request: only[0], missing: s.count[only[0].ID]}) {
				return false
			}
		}
	}
	return false
}

// addDemand adds a demand. It returns false if the search could end with an error for it, or if there are too
// many demands. It skips admin access, which takes nothing from others, and allocation mode All, which leaves
// no choice: possibleAlone suffices for these.
func (s *Search) addDemand(d demand) bool {
	if s.mayErr(d.request) || len(s.memory.demands) == maxDemands {
		return false
	}
	if !d.request.Admin && !d.request.All() && d.missing > 0 {
		s.memory.demands = append(s.memory.demands, d)
	}
	return true
}

// mayErr reports whether the search could end with an error when it reaches a request: at a failing device,
// or because all devices together break a constraint.
func (s *Search) mayErr(r *task.Request) bool {
	if !s.Settings().AsUpstream {
		return false
	}
	if r.All() {
		return len(r.Claim.Constraints) > 0
	}
	for pool := range s.pools {
		failing, taken := s.candidates(r, pool).failing, s.taken.byAny[pool]
		if r.Admin {
			taken = nil
		}
		if failing.LenWithout(taken, 0) > 0 {
			return true
		}
	}
	return false
}

// possibleAlone reports whether there are enough devices for a request, as if no other request needed any.
func (s *Search) possibleAlone(r *task.Request) bool {
	if s.refused[r.ID] != nil {
		return false
	}
	if r.All() {
		for _, at := range s.wanted[r.ID] {
			if !s.candidates(r, at.pool).usable.Has(at.device) || s.taken.forRequest(r, at) {
				return false
			}
		}
		return len(s.wanted[r.ID]) > 0
	}
	free := 0
	for pool := range s.pools {
		free += s.candidates(r, pool).usable.LenWithout(s.taken.against(r, pool), 0)
	}
	return free >= s.count[r.ID]
}

// available returns the devices of a pool that can meet a demand, in the memory of a set.
func (s *Search) available(into bitset.Set, d *demand, pool int) bitset.Set {
	into = into.Sized(len(s.view.Pools[pool].Devices))
	c := s.candidates(d.request, pool)
	if c.usable == nil || pool < d.start.pool {
		return into
	}
	into.Copy(c.usable)
	into.AndNot(s.taken.byAny[pool])
	into.AndNot(s.blocked(pool))
	into.RemoveBefore(d.start.in(pool))
	return into
}

// blocked returns the devices of a pool whose counters do not suffice any more after draws of the search; nil
// if it has not drawn from the pool.
func (s *Search) blocked(pool int) bitset.Set {
	p := &s.pools[pool]
	if !p.drawn() {
		return nil
	}
	if p.blockedAt != p.draws {
		p.blocked = p.blocked.Sized(len(p.pool.Devices))
		for device := range p.pool.Partitions.All() {
			at := location{pool, device}
			if !p.covers(device) && !(s.shared(at) && s.inUse(at)) {
				p.blocked.Add(device)
			}
		}
		p.blockedAt = p.draws
	}
	return p.blocked
}

// canSatisfy reports whether there are devices for all demands at once that satisfy one constraint.
func (s *Search) canSatisfy(demands []demand, c *scopedConstraint) bool {
	covered := 0
	for i := range demands {
		if r := demands[i].request; c.coversClaimOf(r) && c.appliesTo(r) {
			if r.Derives(c.name.Full) {
				return true // The request sees other values than the published ones.
			}
			covered++
		}
	}
	switch {
	case covered == 0 || !c.lists && c.devices() == 0 && c.numbering.HasStrange():
		return true // A first device may have a value of an unknown type.
	case c.distinct:
		return s.canDiffer(demands, c)
	}
	return s.canAgree(demands, c)
}

// canAgree reports whether some value of a matchAttribute has enough devices. It skips values of too few
// devices, because lists can have thousands of values, most of them rare.
func (s *Search) canAgree(demands []demand, c *scopedConstraint) bool {
	enough := s.agreeing(demands, c)
	if c.devices() > 0 {
		for _, v := range c.agreed() {
			if c.numbering.Holders(v) >= enough && s.canSupply(demands, c, v) {
				return true
			}
		}
		return false
	}
	for v := range c.numbering.Values {
		if c.numbering.Holders(attribute.ValueID(v)) >= enough && s.canSupply(demands, c, attribute.ValueID(v)) {
			return true
		}
	}
	return false
}

// agreeing returns the minimum number of devices with the same value that the demands need. It is 0 if there
// are shareable devices, because one such device can be enough.
func (s *Search) agreeing(demands []demand, c *scopedConstraint) int {
	if s.sharable {
		return 0
	}
	missing := 0
	for i := range demands {
		if r := demands[i].request; c.coversClaimOf(r) && c.appliesTo(r) {
			missing += demands[i].missing
		}
	}
	return missing
}

// canDiffer reports whether as many unused values are left as devices are missing for a distinctAttribute:
// each device takes at least one value.
func (s *Search) canDiffer(demands []demand, c *scopedConstraint) bool {
	f := &s.memory.flow
	s.fillRows(demands, c)
	rows := f.rows[:0]
	for _, r := range f.rows {
		if r.covered {
			rows = append(rows, r)
		}
	}
	f.rows, f.supplies, f.surplus = rows, f.supplies[:0], 0
	f.users = Resized(f.users, len(c.numbering.Values))
	for pool := range s.pools {
		s.fillWords(pool, nil, 0)
		for v := range f.users {
			having := c.numbering.HoldersIn(pool, attribute.ValueID(v))
			for i := range f.rows {
				if having != nil && f.words[i].Intersects(having) {
					f.users[v] |= 1 << i
				}
			}
		}
	}
	for v, users := range f.users {
		if users != 0 && (v >= len(c.used) || c.used[v] == 0) {
			f.addSupply(users, 1)
		}
	}
	return f.satisfiable()
}
