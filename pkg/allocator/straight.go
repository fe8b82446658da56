package allocator

import (
	"context"
	"errors"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// errTurnedBack ends a straight search: the first choice led nowhere.
var errTurnedBack = errors.New("a straight search does not turn back")

// straight looks for the solution that is found without turning back, where there is
// one: it takes the first devices that do, and judges no others. It asks for nothing
// that has to be known of all devices. So it costs least where most is unknown.
// Unless done, the search has to be done in earnest, for which nothing was judged in vain.
func straight(ctx context.Context, t *task, site Site, results resultsOf) (a answer, done bool, err error) {
	if set := t.Settings(); !set.Gradual || set.Policy != nil || t.WantsAll() {
		return answer{}, false, nil
	}
	search, err := newSearch(ctx, t, site, true)
	if err != nil {
		return answer{}, false, err
	}
	defer search.release()
	found, err := search.claim(0)
	switch {
	case errors.Is(err, errTurnedBack) || errors.Is(err, errBudget) || err == nil && !found:
		return answer{}, false, nil
	case err != nil:
		return answer{}, false, err
	}
	a = answer{Steps: search.steps, Found: true}
	a.Results, err = results(search)
	return a, true, err
}

// selectAll judges all devices of a pool.
func (s *search) selectAll(pool *inventory.NodePool, wanted selector.Set) (*selector.Selection, error) {
	evaluator := s.Settings().Evaluator
	if !s.Settings().Gradual {
		return evaluator.Select(s.ctx, pool, wanted)
	}
	if known := evaluator.Selected(pool, wanted); known != nil {
		return known, nil
	}
	return evaluator.Gradually(pool, wanted).Complete(s.ctx)
}

// selectLater lets all devices of a pool be candidates of a request until the search
// meets them. It returns false if all were judged before.
func (s *search) selectLater(r *request, c *candidates, pool *inventory.NodePool) bool {
	if !s.goesStraight || s.Settings().Evaluator.Selected(pool, r.wanted) != nil {
		return false
	}
	c.gradual = s.Settings().Evaluator.Gradually(pool, r.wanted)
	c.open, c.failing = s.memory.bits.New(len(pool.Devices)), s.memory.bits.New(len(pool.Devices))
	for i := range pool.Devices {
		c.open.Add(i)
	}
	c.usable.Copy(pool.Reachable)
	return true
}

// meet judges a device that a straight search has come to, and reports whether it can be
// tried. Errors come in the order in which they do after selectAll.
func (s *search) meet(r *request, at location) (bool, error) {
	c, p := s.candidates(r, at.pool), &s.pools[at.pool]
	switch {
	case p.later != nil && !r.admin && p.later.isHeld(p.pool, at.device):
		return false, nil
	case c.open == nil:
		return true, nil
	}
	matches, err := c.gradual.Matches(s.ctx, at.device)
	switch {
	case s.ctx.Err() != nil:
		return false, interrupted(s.ctx)
	case err != nil:
		return false, err
	case !matches:
		c.open.Remove(at.device)
		return false, nil
	}
	if p.pool.Reachable.Has(at.device) && !s.takesWhole(r, at) {
		s.measureDevice(r, p, at.device, c)
	}
	return c.usable.Has(at.device) || c.failing.Has(at.device), nil
}
