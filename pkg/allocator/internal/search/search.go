package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// errBudget stops a search that has tried too many devices.
var errBudget = errors.New("step budget exhausted")

// stepsPerCheck is the number of steps between checks of the context.
const stepsPerCheck = 64

// location identifies a device by its positions: of the pool in the node view, and of the device in the pool.
type location struct {
	pool, device int
}

// cursor is a position in the order of candidates: the pool in the node view, and the position of a device in the pool.
type cursor struct {
	pool, device int
}

// in returns the first position in a pool that is not before the cursor. The pool itself must not be before the cursor.
func (c cursor) in(pool int) int {
	if pool == c.pool {
		return c.device
	}
	return 0
}

// A Search is the state of one depth-first search. It is not safe for concurrent use.
type Search struct {
	*task.Task
	ctx  context.Context
	view NodeView
	// pools are the search's states of the view's pools, by position.
	pools     []poolState
	steps     int // devices tried
	allowance Allowance

	// table holds the candidates of each kind of request in each pool, one row per kind. It is filled only
	// for pools that can be allocated from.
	table []candidates
	// wanted holds, by request ID, all devices for requests with allocation mode All. It is empty without such requests.
	wanted [][]location
	// refused holds, by request ID, the reason why nothing can be allocated for a request on this node. The
	// search goes on without the request only if it has alternatives. underivable holds the first error of a
	// derived attribute likewise.
	refused, underivable map[int]error
	// doubted are the slots for which doubt cannot tell whether they could be satisfied.
	doubted map[int]bool
	// count is, by request ID, the number of devices needed.
	count []int

	constraints []scopedConstraint // of all claims, see constraintsOf
	chosen      []int              // by ID of the slot: the alternative that is tried
	placed      [][]placement      // by claim: devices in the order of their choice
	taken       takenDevices
	sharing     sharing
	// compatibility is set only if the feature is on.
	compatibility compatibility
	// sharable is set if any device allows multiple allocations.
	sharable bool

	// unpruned is set if a derived attribute fails for some candidate. The search must then meet that error
	// exactly where upstream does.
	unpruned bool
	// goesStraight is set if the search ends where it would have to turn back, see straight. It then prunes nothing.
	goesStraight bool
	// turnedBack is set when the first choice led nowhere. From then on the search checks whether there can
	// be a solution before it goes deeper.
	turnedBack bool
	// gaveUp is set when the budget is exhausted.
	gaveUp    bool
	prospects prospects
	classes   classes
	failed    States

	// judging is set while solutions are compared. Classes then also distinguish what an objective sees.
	judging *room

	memory memory
}

// constraintsOf returns the constraints of a claim.
func (s *Search) constraintsOf(c *task.Claim) []scopedConstraint {
	return s.constraints[c.FirstConstraint : c.FirstConstraint+len(c.Constraints)]
}

// claim finds devices for the claims from index on.
func (s *Search) claim(index int) (bool, error) {
	if index == len(s.Claims()) {
		return true, nil
	}
	return s.slot(s.Claims()[index], 0)
}

// slot finds devices for the requests of a claim from index on, and for all later claims. It tries
// alternatives in their order.
func (s *Search) slot(c *task.Claim, index int) (bool, error) {
	if index == len(c.Slots) {
		return s.claim(c.Index + 1)
	}
	state := s.stateBefore(c, index)
	if s.failed.Has(state) {
		return false, nil
	}
	before := s.steps
	for i, r := range c.Slots[index].Alternatives {
		if s.refused[r.ID] != nil {
			continue
		}
		s.chosen[c.Slots[index].ID] = i
		var found bool
		var err error
		if r.All() {
			found, err = s.allDevices(r, index, 0)
		} else {
			found, err = s.devices(r, index, s.count[r.ID], cursor{})
		}
		if found || err != nil {
			return found, err
		}
	}
	s.failed.Add(state, s.steps-before)
	return false, nil
}

// devices finds the missing number of devices for a request, none of them before start, and then everything
// after the request. It tries only ascending positions, because the order within a request does not matter.
func (s *Search) devices(r *task.Request, slot, missing int, start cursor) (bool, error) {
	if missing <= 0 {
		return s.slot(r.Claim, slot+1)
	}
	if !s.fitsResult(r, missing) || !s.goesStraight && s.tooFew(r, missing, start) {
		return false, nil
	}
	var dead deadClasses
	for pool := start.pool; pool < len(s.pools); pool++ {
		c := s.candidates(r, pool)
		for device := c.next(start.in(pool)); device >= 0; device = c.next(device + 1) {
			at := location{pool, device}
			if s.taken.forRequest(r, at) || dead.contains(s, at, start) {
				continue
			}
			if can, err := s.meet(r, at); err != nil {
				return false, err
			} else if !can {
				continue
			}
			switch tried, err := s.try(r, slot, missing, at, cursor{pool, device + 1}); {
			case err != nil:
				return false, err
			case tried == solved:
				return true, nil
			case tried == notPlaced:
				continue
			}
			if s.goesStraight {
				return false, errTurnedBack
			}
			s.turnedBack = true
			dead.add(s, at)
			next := cursor{pool, device + 1}
			if s.tooFew(r, missing, next) || !s.feasible(r, slot, missing, next) {
				return false, nil
			}
		}
	}
	return false, nil
}

// trial is the result of trying a device.
type trial int

const (
	notPlaced trial = iota // nothing was searched
	deadEnd
	solved
)

// try takes one device and goes on with those from next on. If that leads nowhere, it rolls back.
func (s *Search) try(r *task.Request, slot, missing int, at location, next cursor) (trial, error) {
	if err := s.step(); err != nil {
		return notPlaced, err
	}
	if bitset.Has(s.candidates(r, at.pool).failing, at.device) {
		return notPlaced, s.candidateError(r, at)
	}
	if !s.hasRoom(r, at) {
		return notPlaced, nil
	}
	if placed, err := s.place(r, at); err != nil || placed != placedOK {
		return notPlaced, err
	}
	found, err := false, error(nil)
	if !s.turnedBack || s.feasible(r, slot, missing-1, next) {
		found, err = s.devices(r, slot, missing-1, next)
	}
	if found {
		return solved, nil
	}
	s.unplace(r)
	return deadEnd, err
}

// allDevices places the devices of a request with allocation mode All from index on. There is no choice:
// either all devices are available, or the earlier choices have no solution. With AsUpstream, a broken
// constraint is an error.
func (s *Search) allDevices(r *task.Request, slot, index int) (bool, error) {
	wanted := s.wanted[r.ID]
	switch {
	case len(wanted) == 0:
		return false, nil // At least one device is required.
	case index == len(wanted):
		return s.slot(r.Claim, slot+1)
	case !s.fitsResult(r, len(wanted)-index):
		return false, nil
	}
	at := wanted[index]
	if err := s.step(); err != nil {
		return false, err
	}
	if !s.candidates(r, at.pool).usable.Has(at.device) || s.taken.forRequest(r, at) {
		return false, nil
	}
	switch placed, err := s.place(r, at); {
	case err != nil:
		return false, err
	case placed == notAvailable || placed == constraintViolated && !s.Settings().AsUpstream:
		return false, nil
	case placed == constraintViolated:
		return false, fmt.Errorf("claim %s request %s: asks for all devices but device %s/%s does not satisfy a "+
			"constraint of the claim together with the others; no node can change that",
			dra.Of(r.Claim.API), r.Reference(), s.view.Pools[at.pool].ID, s.device(at).Name)
	}
	found, err := s.allDevices(r, slot, index+1)
	if !found {
		s.unplace(r)
	}
	return found, err
}

// fitsResult reports whether the claim's result has room for more devices.
func (s *Search) fitsResult(r *task.Request, more int) bool {
	return more <= r.Claim.Most-len(s.placed[r.Claim.Index])
}

func (s *Search) step() error {
	s.steps++
	if !s.allowance.Suffices(s.steps + s.prospects.cost()) {
		return errBudget
	}
	if s.steps%stepsPerCheck == 0 && s.ctx.Err() != nil {
		return interrupted(s.ctx)
	}
	return nil
}

func (s *Search) device(at location) *inventory.Device {
	return &s.view.Pools[at.pool].Devices[at.device]
}
