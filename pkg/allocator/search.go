package allocator

import (
	"context"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// errBudget stops a search that has tried too many devices.
var errBudget = errors.New("step budget exhausted")

// stepsPerCheck is how many devices are tried between looks at the context.
const stepsPerCheck = 64

// location is a device by its position: the pool in the site, the device in the pool.
type location struct {
	pool, device int
}

// in returns the first position of a pool that is not before the location, for a
// pool that is not before it either.
func (l location) in(pool int) int {
	if pool == l.pool {
		return l.device
	}
	return 0
}

// search is the state of one depth-first search. It is used by one goroutine.
type search struct {
	*Task
	ctx   context.Context
	site  Site
	steps int // devices tried
	// hopeless is how often a feasibility check said no. After a yes there is a pause
	// until nextCheck, in steps.
	hopeless, pause, nextCheck int
	budget                     int

	// table has the candidates of each request in each pool, a row a request. Only
	// filled for pools that can be allocated from.
	table []candidates
	// wanted are, by request id, all devices for requests with allocation mode All;
	// nil without such requests.
	wanted [][]location
	// count is, by request id, how many devices are needed.
	count []int

	constraints [][]scopedConstraint // by claim, nil if none has any
	chosen      []int                // by id of the slot: the alternative that is tried
	placed      [][]placement        // by claim: devices in the order of being chosen
	taken       takenDevices
	drawn       drawnCounters
	sharing     sharing
	// compatibility is only kept if the feature is on.
	compatibility compatibility
	// unpruned is set if a derived attribute fails for some candidate. The search
	// then has to meet that error just where upstream does.
	unpruned bool
	classes  classes
	// turnedBack is set when the first choice led nowhere. From then on the search
	// asks whether there can be a solution at all before it goes deeper.
	turnedBack bool

	bits    bitset.Arena
	outcome Outcome
}

// newSearch takes memory in few pieces: a search runs for every pod and node.
func newSearch(ctx context.Context, t *Task, site Site) (*search, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	numbers := make([]int, len(t.requests)+t.slotCount)
	s := &search{
		Task: t, ctx: ctx, site: site, budget: t.solver.StepBudget,
		table:  make([]candidates, len(t.requests)*len(site.Pools)),
		count:  numbers[:len(t.requests)],
		chosen: numbers[len(t.requests):],
		placed: make([][]placement, len(t.claims)),
		bits:   bitset.NewArena(arenaWords(t, site)),
	}
	s.taken = newTakenDevices(len(t.claims), site.Pools, &s.bits)
	if s.budget == 0 {
		s.budget = DefaultStepBudget
	}
	for _, c := range t.claims {
		if err := s.checkClaim(c); err != nil {
			return nil, err
		}
		if len(c.constraints) > 0 {
			if s.constraints == nil {
				s.constraints = make([][]scopedConstraint, len(t.claims))
			}
			s.constraints[c.index] = t.newConstraints(c)
			s.unpruned = s.unpruned || s.derivationFails(c, s.constraints[c.index])
		}
	}
	return s, nil
}

// arenaWords is how much memory the sets of a search need: one a request for its
// candidates, one a claim for what it has taken, and one for what all have.
func arenaWords(t *Task, site Site) int {
	words := 0
	for _, pool := range site.Pools {
		words += bitset.Words(len(pool.Devices))
	}
	sets := len(t.requests) + 1
	if len(t.claims) > 1 {
		sets += len(t.claims)
	}
	return sets * words
}

// candidates of a request in a pool.
func (s *search) candidates(request, pool int) *candidates {
	return &s.table[request*len(s.site.Pools)+pool]
}

// constraintsOf returns the constraints of a claim.
func (s *search) constraintsOf(c *claim) []scopedConstraint {
	if s.constraints == nil {
		return nil
	}
	return s.constraints[c.index]
}

// checkClaim finds what makes a claim impossible for good, and how many devices
// its requests need.
func (s *search) checkClaim(c *claim) error {
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
		if least > resourceapi.AllocationResultsMaxSize-total {
			return fmt.Errorf("claim %s, request %s: asks for %d devices, but a claim can have at most %d and "+
				"its other requests ask for %d; split the claim", klog.KObj(c.api), slot.name, least,
				resourceapi.AllocationResultsMaxSize, total)
		}
		total += max(least, 0)
	}
	s.placed[c.index] = make([]placement, 0, total)
	return c.constraintErr()
}

func (s *search) findCandidates(r *request) error {
	if r.all() && s.wanted == nil {
		s.wanted = make([][]location, len(s.requests))
	}
	s.count[r.id] = int(r.spec.count)
	for i, pool := range s.site.Pools {
		if pool.State != inventory.Complete {
			if r.all() {
				// Without the pool's name, which usually is another one on each node.
				return fmt.Errorf("claim %s, request %s: asks for all devices, but a resource pool of driver %s is %s (%s)",
					klog.KObj(r.claim.api), r.reference(), pool.ID.Driver, pool.State, pool.Reason)
			}
			continue
		}
		found := s.candidates(r.id, i)
		if err := s.findCandidatesIn(r, pool, found); err != nil {
			return err
		}
		if r.all() {
			if err := s.addAll(r, i, found); err != nil {
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
func (s *search) addAll(r *request, index int, found *candidates) error {
	pool := s.site.Pools[index]
	hidden := s.hidden(pool)
	for device := range pool.Devices {
		switch {
		case has(hidden, device):
		case found.selection.Failed.Has(device):
			return r.wanted.Error(pool, found.selection, device)
		case found.selection.Matches.Has(device) && pool.Reachable.Has(device):
			fits, err := s.fitsWhole(r, &pool.Devices[device])
			if err != nil {
				return s.capacityError(r, pool, device, err)
			}
			if fits {
				s.wanted[r.id] = append(s.wanted[r.id], location{index, device})
			}
		}
	}
	return nil
}

// hidden returns the devices which, because of a feature that is off, do not count
// among all devices of a pool; nil if there are none.
func (t *Task) hidden(pool *inventory.NodePool) bitset.Set {
	if t.solver.Features.DeviceBindingAndStatus || pool.Conditional.Empty() {
		return nil
	}
	return pool.Conditional
}

// claim finds devices for the claims from index on.
func (s *search) claim(index int) (bool, error) {
	if index == len(s.claims) {
		return true, nil
	}
	return s.slot(s.claims[index], 0)
}

// slot finds devices for the requests of a claim from index on, and for all
// claims after it. Alternatives are tried in their order.
func (s *search) slot(c *claim, index int) (bool, error) {
	if index == len(c.slots) {
		return s.claim(c.index + 1)
	}
	for i, r := range c.slots[index].alternatives {
		s.chosen[c.slots[index].id] = i
		var found bool
		var err error
		if r.all() {
			found, err = s.allDevices(r, index, 0)
		} else {
			found, err = s.devices(r, index, s.count[r.id], location{})
		}
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// devices finds the missing number of devices for a request, none of them before
// start, and then everything after the request. Order within a request does not
// matter, so only ascending positions are tried.
func (s *search) devices(r *request, slot, missing int, start location) (bool, error) {
	if missing <= 0 {
		return s.slot(r.claim, slot+1)
	}
	if !s.fitsResult(r, missing) || s.tooFew(r, missing, start) {
		return false, nil
	}
	var dead deadClasses
	for pool := start.pool; pool < len(s.site.Pools); pool++ {
		for device := s.next(r, pool, start.in(pool)); device >= 0; device = s.next(r, pool, device+1) {
			at := location{pool, device}
			if s.taken.forRequest(r, at) || dead.contains(s, at) {
				continue
			}
			found, err := s.try(r, slot, missing, at)
			if found || err != nil {
				return found, err
			}
			s.turnedBack = true
			dead.add(s, at)
			if !s.feasible(r, slot, missing, location{pool, device + 1}) {
				return false, nil
			}
		}
	}
	return false, nil
}

// next returns the next candidate of a pool at or after from, or -1.
func (s *search) next(r *request, pool, from int) int {
	c := s.candidates(r.id, pool)
	usable, failing := c.usable.Next(from), c.failing.Next(from)
	if usable < 0 || failing >= 0 && failing < usable {
		return failing
	}
	return usable
}

// try takes one device and goes on from there; if that leads nowhere, it gives
// the device back.
func (s *search) try(r *request, slot, missing int, at location) (bool, error) {
	if err := s.step(); err != nil {
		return false, err
	}
	if s.candidates(r.id, at.pool).failing.Has(at.device) {
		return false, s.candidateError(r, at)
	}
	if !s.hasRoom(r, at, s.device(at)) {
		return false, nil
	}
	if placed, err := s.place(r, at); err != nil || placed != placedOK {
		return false, err
	}
	next := location{at.pool, at.device + 1}
	found, err := false, error(nil)
	if !s.turnedBack || s.feasible(r, slot, missing-1, next) {
		found, err = s.devices(r, slot, missing-1, next)
	}
	if !found {
		s.unplace(r)
	}
	return found, err
}

// allDevices places the devices of a request with allocation mode All from index
// on. There is no choice: either all can be had, or there is no solution.
func (s *search) allDevices(r *request, slot, index int) (bool, error) {
	wanted := s.wanted[r.id]
	switch {
	case len(wanted) == 0:
		return false, nil // At least one device is required.
	case index == len(wanted):
		return s.slot(r.claim, slot+1)
	case !s.fitsResult(r, len(wanted)-index):
		return false, nil
	}
	at := wanted[index]
	if err := s.step(); err != nil {
		return false, err
	}
	if !s.candidates(r.id, at.pool).usable.Has(at.device) || s.taken.forRequest(r, at) {
		return false, nil
	}
	switch placed, err := s.place(r, at); {
	case err != nil:
		return false, err
	case placed == notAvailable:
		return false, nil
	case placed == constraintViolated:
		return false, fmt.Errorf("claim %s, request %s: asks for all devices, but device %s/%s does not satisfy a "+
			"constraint of the claim together with the others; no node can change that",
			klog.KObj(r.claim.api), r.reference(), s.site.Pools[at.pool].ID, s.device(at).Name)
	}
	found, err := s.allDevices(r, slot, index+1)
	if !found {
		s.unplace(r)
	}
	return found, err
}

// fitsResult reports whether the claim's result has room for more devices.
func (s *search) fitsResult(r *request, more int) bool {
	return more <= resourceapi.AllocationResultsMaxSize-len(s.placed[r.claim.index])
}

func (s *search) step() error {
	s.steps++
	if s.steps+s.hopeless*checkSteps > s.budget {
		return errBudget
	}
	if s.steps%stepsPerCheck == 0 && s.ctx.Err() != nil {
		return interrupted(s.ctx)
	}
	return nil
}

func (s *search) device(at location) *inventory.Device {
	return &s.site.Pools[at.pool].Devices[at.device]
}
