package allocator

import (
	"context"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// newSearch prepares a search: candidates, counts, constraints.
func newSearch(ctx context.Context, t *task, site Site, straight bool) (*search, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	s := takeSearch(t, site, straight)
	steps := t.Settings().StepBudget
	if steps == 0 {
		steps = DefaultStepBudget
	}
	s.ctx, s.allowance = ctx, newAllowance(ctx, steps)
	for i, pool := range site.Pools {
		s.pools[i].start(t, pool, site.Usage, straight)
		s.sharable = s.sharable || !s.pools[i].shareable.Empty()
	}
	for _, c := range t.Claims() {
		if err := s.setUpClaim(c); err != nil {
			s.release()
			return nil, err
		}
	}
	return s, nil
}

// setUpClaim finds what makes a claim impossible for good, the candidates of its
// requests, and how many devices they need.
func (s *search) setUpClaim(c *claim) error {
	if c.err != nil {
		return c.err
	}
	total := 0
	for _, slot := range c.slots {
		if slot.err != nil {
			return slot.err
		}
		least := -1
		for _, r := range slot.alternatives {
			if r.err != nil {
				return r.err
			}
			if err := s.findCandidates(r); err != nil {
				return err
			}
			if least < 0 || s.count[r.id] < least {
				least = s.count[r.id]
			}
		}
		if least > c.most-total {
			return fmt.Errorf("claim %s, request %s: asks for %s, but a claim can have at most %d and "+
				"its other requests ask for %d; split the claim", claimname.Of(c.api), slot.name, plural(least, "device", "devices"),
				c.most, total)
		}
		total += max(least, 0)
	}
	if err := c.constraintErr(); err != nil {
		return err
	}
	constraints := s.constraintsOf(c)
	for i := range constraints {
		constraints[i].start(s, c, &c.constraints[i])
	}
	if s.goesStraight {
		return nil
	}
	fails, err := s.derivationFails(c)
	s.unpruned = s.unpruned || fails
	return err
}

func (s *search) findCandidates(r *request) error {
	s.count[r.id] = int(r.count)
	first := s.Kinds()[r.kind] == r
	for i, pool := range s.site.Pools {
		if pool.State != inventory.Complete {
			if r.all() {
				// Without the pool's name, which usually is another one on each node.
				return fmt.Errorf("claim %s, request %s: asks for all devices, but a resource pool of driver %s is %s (%s)",
					claimname.Of(r.claim.api), r.reference(), pool.ID.Driver, pool.State, pool.Reason)
			}
			continue
		}
		if first {
			if err := s.findCandidatesIn(r, i); err != nil {
				return err
			}
		}
		if r.all() {
			if err := s.addAll(r, i); err != nil {
				return err
			}
		}
	}
	if r.all() {
		s.count[r.id] = len(s.wanted[r.id])
	}
	return nil
}

// addAll collects the devices of a pool for allocation mode All: all that match,
// whether they can be had or not.
func (s *search) addAll(r *request, index int) error {
	pool, found := s.site.Pools[index], s.candidates(r, index)
	if found.wanted == nil {
		found.wanted = bitset.New(len(pool.Devices))
	}
	hidden := s.hidden(pool)
	for device := range pool.Devices {
		switch {
		case bitset.Has(hidden, device):
		case found.selection.Failed.Has(device):
			return r.wanted.Error(pool, found.selection, device)
		case found.selection.Matches.Has(device) && pool.Reachable.Has(device):
			at := location{index, device}
			fits, err := s.fitsWhole(r, at)
			if err != nil {
				return s.capacityError(r, pool, device, err)
			}
			if fits {
				found.wanted.Add(device)
				s.wanted[r.id] = append(s.wanted[r.id], at)
			}
		}
	}
	return nil
}

// hidden returns the devices which, because of a feature that is off, do not count
// among all devices of a pool; nil if there are none.
func (s *search) hidden(pool *inventory.NodePool) bitset.Set {
	if s.Settings().Features.DeviceBindingAndStatus || pool.Conditional.Empty() {
		return nil
	}
	return pool.Conditional
}
