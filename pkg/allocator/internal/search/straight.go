package search

import (
	"context"
	"errors"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// errTurnedBack ends a straight search: the first choice led nowhere.
var errTurnedBack = errors.New("a straight search does not turn back")

// straight looks for the solution without turning back, if there is one: it takes the first suitable devices,
// and judges no others. It needs nothing that depends on all devices, so it costs least when most verdicts
// are unknown. If done is false, the full search must follow; it reuses all verdicts.
func straight(ctx context.Context, t *task.Task, view NodeView, results resultsOf) (a Answer, done bool, err error) {
	if !t.Settings().Gradual || !t.Settings().AsUpstream || view.Objective != nil || t.WantsAll() {
		return Answer{}, false, nil
	}
	search, err := newSearch(ctx, t, view, true)
	if err != nil {
		return Answer{}, false, err
	}
	defer search.Release()
	found, err := search.claim(0)
	switch {
	case errors.Is(err, errTurnedBack) || errors.Is(err, errBudget) || err == nil && !found:
		return Answer{}, false, nil
	case err != nil:
		return Answer{}, false, err
	}
	a = Answer{Steps: search.steps, Found: true}
	a.Results, err = results(search)
	return a, true, err
}

// selectAll evaluates the selectors for all devices of a pool.
func (s *Search) selectAll(pool *inventory.NodePool, wanted selector.Set) (*selector.Selection, error) {
	evaluator := s.Settings().Evaluator
	if !s.Settings().Gradual {
		return evaluator.Select(s.ctx, pool, wanted)
	}
	if known := evaluator.Selected(pool, wanted); known != nil {
		return known, nil
	}
	return evaluator.Gradually(pool, wanted).Complete(s.ctx)
}

// selectLater makes all devices of a pool candidates of a request until the search meets them. It returns
// false if all were judged before.
func (s *Search) selectLater(r *task.Request, c *candidates, pool *inventory.NodePool) bool {
	if !s.goesStraight || s.Settings().Evaluator.Selected(pool, r.Wanted) != nil {
		return false
	}
	c.gradual = s.Settings().Evaluator.Gradually(pool, r.Wanted)
	c.open, c.failing = s.memory.bits.New(len(pool.Devices)), s.memory.bits.New(len(pool.Devices))
	for i := range pool.Devices {
		c.open.Add(i)
	}
	c.usable.Copy(pool.Reachable)
	return true
}

// meet judges a device that a straight search reached, and reports whether it can be tried. Errors come in
// the same order as after selectAll.
func (s *Search) meet(r *task.Request, at location) (bool, error) {
	c, p := s.candidates(r, at.pool), &s.pools[at.pool]
	switch {
	case p.later != nil && !r.Admin && p.later.IsHeld(p.pool, at.device):
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
