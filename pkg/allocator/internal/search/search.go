package search

import (
	"context"
	"errors"
	"fmt"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/claimname"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/budget"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/deadend"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// errBudget stops a search that has tried too many devices.
var errBudget = errors.New("step budget exhausted")

// stepsPerCheck is how many devices are tried between looks at the context.
const stepsPerCheck = 64

// location is a device by its position: the pool in the node view, the device in the pool.
type location struct {
	pool, device int
}

// cursor is a place in the order in which the candidates of a request are tried: the
// pool in the node view, and the position of a device in the pool.
type cursor struct {
	pool, device int
}

// in returns the first position in a pool that is not before the cursor, for a pool that
// is not before it either.
func (c cursor) in(pool int) int {
	if pool == c.pool {
		return c.device
	}
	return 0
}

// Search is the state of one depth-first search. It is used by one goroutine.
type Search struct {
	*task.Task
	ctx  context.Context
	view NodeView
	// pools are what the search knows of the view's pools, by position.
	pools     []poolState
	steps     int // devices tried
	allowance budget.Allowance

	// table has the candidates of each kind of request in each pool, a row a kind.
	// Only filled for pools that can be allocated from.
	table []candidates
	// wanted are, by request id, all devices for requests with allocation mode All;
	// empty without such requests.
	wanted [][]location
	// refused has, by request id, why nothing can be allocated for a request here. Only with alternatives
	// does the search go on without it. underivable has the first error of a derived attribute likewise.
	refused, underivable map[int]error
	// doubted are the slots of which doubt does not know whether they could be satisfied.
	doubted map[int]bool
	// count is, by request id, how many devices are needed.
	count []int

	constraints []scopedConstraint // of all claims, see constraintsOf
	chosen      []int              // by id of the slot: the alternative that is tried
	placed      [][]placement      // by claim: devices in the order of being chosen
	taken       takenDevices
	sharing     sharing
	// compatibility is only kept if the feature is on.
	compatibility compatibility
	// sharable is set if there are devices that can be allocated several times.
	sharable bool

	// unpruned is set if a derived attribute fails for some candidate. The search
	// then has to meet that error just where upstream does.
	unpruned bool
	// goesStraight is set if the search ends where it would have to turn back, see
	// straight. It then prunes nothing.
	goesStraight bool
	// turnedBack is set when the first choice led nowhere. From then on the search
	// asks whether there can be a solution at all before it goes deeper.
	turnedBack bool
	// gaveUp is set when the budget has run out.
	gaveUp    bool
	prospects prospects
	classes   classes
	failed    deadend.States

	// judging is set while solutions are compared: then classes say what an objective sees too.
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

// slot finds devices for the requests of a claim from index on, and for all
// claims after it. Alternatives are tried in their order.
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

// devices finds the missing number of devices for a request, none of them before
// start, and then everything after the request. Order within a request does not
// matter, so only ascending positions are tried.
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

// trial is what came of trying a device.
type trial int

const (
	notPlaced trial = iota // nothing was searched
	deadEnd
	solved
)

// try takes one device and goes on with those from next on; if that leads nowhere, it
// rolls that back.
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

// allDevices places the devices of a request with allocation mode All from index
// on. There is no choice: either all can be had, or there is no solution with what was chosen before.
// Upstream makes it an error that they break a constraint.
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
			claimname.Of(r.Claim.API), r.Reference(), s.view.Pools[at.pool].ID, s.device(at).Name)
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
