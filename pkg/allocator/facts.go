package allocator

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// This file is all that others learn of the insides of a search: a *search is explain.Facts,
// which says what the methods mean. The search itself does without them.

func (s *search) Context() context.Context         { return s.ctx }
func (s *search) Asked() *task                     { return s.task }
func (s *search) Node() *v1.Node                   { return s.site.Node }
func (s *search) Pools() []*inventory.NodePool     { return s.site.Pools }
func (s *search) Usage(pool int) *ledger.PoolUsage { return s.pools[pool].usage }
func (s *search) Steps() int                       { return s.steps }
func (s *search) GaveUp() bool                     { return s.gaveUp }
func (s *search) Budget() (steps int, common bool) { return s.allowance.most, s.allowance.isCommon() }
func (s *search) Wanted(r *request) int            { return s.count[r.id] }
func (s *search) CanShare(pool, device int) bool   { return s.shared(location{pool, device}) }
func (s *search) InUse(pool, device int) bool      { return s.inUse(location{pool, device}) }

func (s *search) Candidates(r *request, pool int) (usable bitset.Set, selection *selector.Selection) {
	c := s.candidates(r, pool)
	return c.usable, c.selection
}

func (s *search) Excluded(pool int) (hidden, unsupported, occupied bitset.Set) {
	p := s.site.Pools[pool]
	return s.hidden(p), s.unsupported(s.site.Node, p), s.occupied(s.pools[pool].usage, p)
}

func (s *search) TakesWhole(r *request, pool, device int) bool {
	return s.takesWhole(r, location{pool, device})
}

// Joins leaves the groups as they are: the search has given everything back, so this is the
// state before it.
func (s *search) Joins(pool, device int) bool {
	undo, ok := s.joinGroups(location{pool, device})
	if ok {
		s.compatibility.restore(pool, undo)
	}
	return ok
}

func (s *search) Values(r *request, constraint, pool, device int) (list []value, found bool, err error) {
	c := &s.constraints[constraint]
	own, found, err := s.valuesFor(r, c, location{pool, device})
	if err != nil || !found {
		return nil, found, err
	}
	for _, v := range own {
		list = append(list, c.numbering.values[v])
	}
	return list, true, nil
}

// Attempt does not depend on the search's context, which may have ended by now, nor on a
// budget that this has in common with others.
func (s *search) Attempt(steps int, claims ...*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, found, known bool) {
	small := *s.Settings()
	small.StepBudget = steps
	a, err := solve(WithSteps(context.WithoutCancel(s.ctx), nil), prepare(&small, claims), s.site)
	if err != nil {
		return nil, false, false
	}
	if a.Search != nil {
		a.Search.release()
	}
	return a.Results, a.Found, !a.GaveUp
}
