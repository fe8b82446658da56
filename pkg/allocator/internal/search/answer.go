package search

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/objective"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// A NodeView is a node as a search sees it.
type NodeView struct {
	Node *v1.Node
	// Pools are the pools that the node sees, in the order in which they are tried.
	Pools []*inventory.NodePool
	// Usage is the use of the pools' devices.
	Usage ledger.View

	// Objective ranks plans; nil means that the first plan is taken.
	Objective *objective.Objective
	// Failed returns how often a device failed to get ready for the pod (KEP-5007). With an objective, a plan
	// with other devices is better, whatever it costs. nil means that no device failed.
	Failed func(pool inventory.PoolID, device string) int
	// Free are the resources that the node has left for the pod, Asked those that the pod takes of them. The
	// zero value of Free means unknown, and therefore no limit. Free is negative for an overcommitted node.
	Free, Asked Resources
	// CountWhole makes the search count the devices that a plan leaves wholly free. The count informs people
	// and decides nothing.
	CountWhole bool
}

// Resources are the resources of a node other than devices.
type Resources struct {
	MilliCPU int64
	Memory   int64 // MiB
}

// An Answer is the result of a search. Its fields are those of allocator.Outcome.
type Answer struct {
	Results                                        []resourceapi.AllocationResult
	Steps                                          int
	TurnedBack, GaveUp, CommonBudget, InvalidPools bool
	Found                                          bool
	Judgement
	// Search is the search if it found nothing, for explanations. The owner must release it.
	Search *Search
}

// Solve looks for devices for all claims of a task at once.
func Solve(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	return run(ctx, t, view, (*Search).results)
}

// Rate is Solve for callers that only need the value of the best plan.
func Rate(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	return run(ctx, t, view, (*Search).checkResults)
}

// Check is Solve for callers that only need to know whether there is a solution.
func Check(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	view.Objective = nil
	return run(ctx, t, view, (*Search).checkResults)
}

// resultsOf turns the solution of a search into results.
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
	if err == nil && !found {
		err = search.doubt()
	}
	switch {
	case errors.Is(err, errBudget):
		search.gaveUp = true
		a.GaveUp, a.CommonBudget, a.Search = true, search.allowance.IsCommon(), search
		return a, nil
	case err == nil && !found:
		a.InvalidPools, a.Search = hasInvalidPools(view.Pools), search
		return a, nil
	case err == nil:
		a.Results, a.Judgement, err = search.plan(results)
	}
	search.Release()
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}

// plan returns the results of the solution that was found or, with an objective, of the best solution. If the
// best solution has no valid results, plan returns those of the first.
func (s *Search) plan(results resultsOf) ([]resourceapi.AllocationResult, Judgement, error) {
	if s.view.Objective == nil {
		made, err := results(s)
		return made, Judgement{}, err
	}
	if _, err := s.checkResults(); err != nil {
		return nil, Judgement{}, err // Same error as without an objective.
	}
	judgement, restore := s.improve()
	made, err := results(s)
	if err != nil {
		restore()
		judgement.Value, judgement.Whole = judgement.FirstFit, judgement.FirstFitWhole
		made, err = results(s)
	}
	return made, judgement, err
}

func hasInvalidPools(pools []*inventory.NodePool) bool {
	for _, pool := range pools {
		if pool.State == inventory.Invalid {
			return true
		}
	}
	return false
}
