package search

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// NodeView is a node as a search sees it: where devices are looked for.
type NodeView struct {
	Node *v1.Node
	// Pools are those that the node sees, in the order in which they are tried.
	Pools []*inventory.NodePool
	// Usage tells what of them is used.
	Usage ledger.View
}

// Answer is what a search came to: the fields are those of allocator.Outcome.
type Answer struct {
	Results                                        []resourceapi.AllocationResult
	Steps                                          int
	TurnedBack, GaveUp, CommonBudget, InvalidPools bool
	Found                                          bool
	// Search is one that found nothing, for who wants to know why. It is to be released.
	Search *Search
}

// Solve looks for devices for all claims of a task at once.
func Solve(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	return run(ctx, t, view, (*Search).results)
}

// Check is Solve for those who only want to know whether there is a solution.
func Check(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	return run(ctx, t, view, (*Search).checkResults)
}

// resultsOf makes something of a solution.
type resultsOf func(*Search) ([]resourceapi.AllocationResult, error)

func run(ctx context.Context, t *task.Task, view NodeView, results resultsOf) (Answer, error) {
	if found, done, err := straight(ctx, t, view, results); done || err != nil {
		return found, err
	}
	search, err := newSearch(ctx, t, view, false)
	if err != nil {
		return Answer{}, err
	}
	found := false
	if !search.infeasible() {
		found, err = search.claim(0)
	}
	a := Answer{Steps: search.steps, TurnedBack: search.turnedBack, Found: found}
	switch {
	case errors.Is(err, errBudget):
		search.gaveUp = true
		a.GaveUp, a.CommonBudget, a.Search = true, search.allowance.IsCommon(), search
		return a, nil
	case err == nil && !found:
		a.InvalidPools, a.Search = hasInvalidPools(view.Pools), search
		return a, nil
	case err == nil:
		a.Results, err = results(search)
	}
	search.Release()
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}

func hasInvalidPools(pools []*inventory.NodePool) bool {
	for _, pool := range pools {
		if pool.State == inventory.Invalid {
			return true
		}
	}
	return false
}
