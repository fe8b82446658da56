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

// NodeView is a node as a search sees it: where devices are looked for.
type NodeView struct {
	Node *v1.Node
	// Pools are those that the node sees, in the order in which they are tried.
	Pools []*inventory.NodePool
	// Usage tells what of them is used.
	Usage ledger.View

	// Objective is what plans are chosen by; nil means that the first one is taken.
	Objective *objective.Objective
	// Failed says how often a device has failed to get ready for the pod (KEP-5007): with an objective, a plan
	// with others is better, whatever it costs. nil if none has.
	Failed func(pool inventory.PoolID, device string) int
	// Free is what the node has left for the pod, and Asked what the pod takes of that. The zero
	// value of Free means that nobody knows, so that it limits nothing. Less than nothing is left of a
	// node that is overcommitted.
	Free, Asked Resources
	// CountWhole has it be counted how much a plan leaves whole. That is for people to read and decides
	// nothing.
	CountWhole bool
}

// Resources are those of a node that are no devices.
type Resources struct {
	MilliCPU int64
	Memory   int64 // in MiB
}

// Answer is what a search came to: the fields are those of allocator.Outcome.
type Answer struct {
	Results                                        []resourceapi.AllocationResult
	Steps                                          int
	TurnedBack, GaveUp, CommonBudget, InvalidPools bool
	Found                                          bool
	Judgement
	// Search is one that found nothing, for who wants to know why. It is to be released.
	Search *Search
}

// Solve looks for devices for all claims of a task at once.
func Solve(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	return run(ctx, t, view, (*Search).results)
}

// Rate is Solve for those who only want to know what the best plan is worth.
func Rate(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	return run(ctx, t, view, (*Search).checkResults)
}

// Check is Solve for those who only want to know whether there is a solution.
func Check(ctx context.Context, t *task.Task, view NodeView) (Answer, error) {
	view.Objective = nil
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

// plan makes something of the solution that was found or, with an objective, of the best one. If
// nothing can be made of that, what was found decides.
func (s *Search) plan(results resultsOf) ([]resourceapi.AllocationResult, Judgement, error) {
	if s.view.Objective == nil {
		made, err := results(s)
		return made, Judgement{}, err
	}
	if _, err := s.checkResults(); err != nil {
		return nil, Judgement{}, err // As without an objective.
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
