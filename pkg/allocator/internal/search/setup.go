package search

import (
	"context"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// newSearch prepares a search: candidates, counts, constraints.
func newSearch(ctx context.Context, t *task.Task, view NodeView, straight bool) (*Search, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	s := takeSearch(t, view, straight)
	steps := t.Settings().StepBudget
	if steps == 0 {
		steps = Default
	}
	s.ctx, s.allowance = ctx, NewAllowance(ctx, steps)
	for i, pool := range view.Pools {
		s.pools[i].start(t, pool, view.Usage, straight)
		s.sharable = s.sharable || !s.pools[i].shareable.Empty()
	}
	for _, c := range t.Claims() {
		if err := s.setUpClaim(c); err != nil {
			s.Release()
			return nil, err
		}
	}
	return s, nil
}

// setUpClaim returns an error that makes the claim impossible on this node. It determines the candidates of
// its requests and the number of devices they need.
func (s *Search) setUpClaim(c *task.Claim) error {
	if c.Err != nil {
		return c.Err
	}
	total := 0
	for _, slot := range c.Slots {
		if slot.Err != nil {
			return slot.Err
		}
		least, unsure := -1, slot.LeftOut != nil // unsure: an alternative may turn out to need fewer.
		for _, r := range slot.Alternatives {
			if r.Err != nil {
				return r.Err
			}
			if err := s.findCandidates(r); err != nil {
				return err
			}
			if s.refused[r.ID] != nil {
				unsure = true
				continue
			}
			if least < 0 || s.count[r.ID] < least {
				least = s.count[r.ID]
			}
		}
		if least < 0 && len(slot.Alternatives) > 0 {
			return s.refused[slot.Alternatives[0].ID]
		}
		if unsure {
			continue
		}
		if least > c.Most-total {
			return fmt.Errorf("claim %s request %s: asks for %s but a claim can have at most %d and "+
				"its other requests ask for %d; split the claim", dra.Of(c.API), slot.Name, Plural(least, "device", "devices"),
				c.Most, total)
		}
		total += max(least, 0)
	}
	if err := c.ConstraintErr(); err != nil {
		return err
	}
	constraints := s.constraintsOf(c)
	for i := range constraints {
		constraints[i].start(s, c, &c.Constraints[i])
	}
	if s.goesStraight {
		return nil
	}
	fails, err := s.derivationFails(c)
	s.unpruned = s.unpruned || fails && s.Settings().AsUpstream
	return err
}

func (s *Search) findCandidates(r *task.Request) error {
	s.count[r.ID] = int(r.Count)
	first := s.Kinds()[r.Kind] == r
	for i, pool := range s.view.Pools {
		if pool.State != inventory.Complete {
			if r.All() && s.mayMatchIn(r, pool) {
				// Without the pool's name, which usually differs between nodes.
				err := fmt.Errorf("claim %s request %s: asks for all devices but a resource pool of driver %s is %s (%s)",
					dra.Of(r.Claim.API), r.Reference(), pool.ID.Driver, pool.State, pool.Reason)
				if err := s.refuse(r, err); err != nil {
					return err
				}
			}
			continue
		}
		if first {
			if err := s.findCandidatesIn(r, i); err != nil {
				return err
			}
		}
		if r.All() {
			if err := s.refuse(r, s.addAll(r, i)); err != nil {
				return err
			}
		}
	}
	if r.All() {
		s.count[r.ID] = len(s.wanted[r.ID])
	}
	return nil
}

// refuse records an error of one request. With AsUpstream it returns the error, which ends the search.
func (s *Search) refuse(r *task.Request, err error) error {
	if err == nil || s.Settings().AsUpstream {
		return err
	}
	if s.refused == nil {
		s.refused = make(map[int]error)
	}
	if s.refused[r.ID] == nil {
		s.refused[r.ID] = err
	}
	return nil
}

// mayMatchIn reports whether an incomplete or invalid pool may have devices for the request.
func (s *Search) mayMatchIn(r *task.Request, pool *inventory.NodePool) bool {
	return s.Settings().AsUpstream || s.Settings().Evaluator.MayMatch(r.Wanted, pool.ID.Driver)
}

// addAll collects the devices of a pool for allocation mode All: all that match, available or not.
func (s *Search) addAll(r *task.Request, index int) error {
	pool, found := s.view.Pools[index], s.candidates(r, index)
	if found.wanted == nil {
		found.wanted = bitset.New(len(pool.Devices))
	}
	hidden := s.hidden(pool)
	for device := range pool.Devices {
		switch {
		case bitset.Has(hidden, device):
		case found.selection.Failed.Has(device):
			return r.Wanted.Error(pool, found.selection, device)
		case found.selection.Matches.Has(device) && pool.Reachable.Has(device):
			at := location{index, device}
			fits, err := s.fitsWhole(r, at)
			if err != nil {
				return s.capacityError(r, pool, device, err)
			}
			if fits {
				found.wanted.Add(device)
				s.wanted[r.ID] = append(s.wanted[r.ID], at)
			}
		}
	}
	return nil
}

// hidden returns the devices that do not count among all devices of a pool because a feature is off; nil if
// there are none.
func (s *Search) hidden(pool *inventory.NodePool) bitset.Set {
	if s.Settings().Features.DeviceBindingAndStatus || pool.Conditional.Empty() {
		return nil
	}
	return pool.Conditional
}
