package search

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// These methods implement explain.Facts, which documents them. They are the only access to the data of a
// search from outside, and the search itself does not use most of them.

func (s *Search) Context() context.Context         { return s.ctx }
func (s *Search) Asked() *task.Task                { return s.Task }
func (s *Search) Node() *v1.Node                   { return s.view.Node }
func (s *Search) Pools() []*inventory.NodePool     { return s.view.Pools }
func (s *Search) Usage(pool int) *ledger.PoolUsage { return s.pools[pool].usage }
func (s *Search) Steps() int                       { return s.steps }
func (s *Search) GaveUp() bool                     { return s.gaveUp }
func (s *Search) Budget() (steps int, common bool) { return s.allowance.Most, s.allowance.IsCommon() }
func (s *Search) Wanted(r *task.Request) int       { return s.count[r.ID] }
func (s *Search) CanShare(pool, device int) bool   { return s.shared(location{pool, device}) }
func (s *Search) InUse(pool, device int) bool      { return s.inUse(location{pool, device}) }

func (s *Search) Candidates(r *task.Request, pool int) (usable bitset.Set, selection *selector.Selection) {
	c := s.candidates(r, pool)
	return c.usable, c.selection
}

func (s *Search) Excluded(pool int) (hidden, unsupported, occupied bitset.Set) {
	p := s.view.Pools[pool]
	return s.hidden(p), s.unsupported(s.view.Node, p), s.occupied(s.pools[pool].usage, p)
}

func (s *Search) TakesWhole(r *task.Request, pool, device int) bool {
	return s.takesWhole(r, location{pool, device})
}

// Joins does not change the compatibility groups. The search has rolled everything back, so these have the
// state before it.
func (s *Search) Joins(pool, device int) bool {
	undo, ok := s.joinCompatible(location{pool, device})
	if ok {
		s.compatibility.restore(pool, undo)
	}
	return ok
}

func (s *Search) Values(r *task.Request, constraint, pool, device int) (list []attribute.Value, found bool, err error) {
	c := &s.constraints[constraint]
	own, found, err := s.valuesFor(r, c, location{pool, device})
	if err != nil || !found {
		return nil, found, err
	}
	for _, v := range own {
		list = append(list, c.numbering.Values[v])
	}
	return list, true, nil
}

// Attempt is independent of the search's context, which may have ended by now, and of a common budget in it.
func (s *Search) Attempt(steps int, claims ...*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, found, known bool) {
	small := *s.Settings()
	small.StepBudget = steps
	a, err := Solve(WithSteps(context.WithoutCancel(s.ctx), nil), task.Prepare(&small, claims), s.view)
	if err != nil {
		return nil, false, false
	}
	if a.Search != nil {
		a.Search.Release()
	}
	return a.Results, a.Found, !a.GaveUp
}
