package allocator

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/explain"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
)

// An Outcome is the result of a search that ended without an error, with or without a solution.
type Outcome struct {
	// Results has one entry for each claim, or is nil if there is no solution or
	// none was found within the budget. It is also nil after Check.
	Results []resourceapi.AllocationResult
	// Steps is the number of devices that were tried.
	Steps int
	// TurnedBack is true if the search had to revise its first choices.
	TurnedBack bool
	// GaveUp is true if the budget ran out: there may be a solution.
	GaveUp bool
	// CommonBudget is true if the search gave up because of the budget that it shares with other searches, see WithSteps.
	CommonBudget bool
	// InvalidPools is true if there is no solution, but the node sees pools that cannot be allocated from
	// because they contradict themselves.
	InvalidPools bool
	// With an objective and a solution: Value is the value of the plan, FirstFit that of the first solution
	// that the search met, and Compared the number of compared solutions, including the first.
	Value, FirstFit Value
	Compared        int
	// With NodeView.CountWhole: Whole is the number of the node's devices that the plan leaves wholly free, FirstFitWhole
	// that of the first solution that the search met. A device that is published in partitions counts once.
	Whole, FirstFitWhole int

	found  bool
	search *search.Search // for Reason, until Release
	blame  Blame          // as of Reason
}

// Release returns the memory of a search that found nothing, for the next search. Reasons are not available
// afterwards. Calling it is optional.
func (o *Outcome) Release() {
	if o.search != nil {
		o.search.Release()
		o.search = nil
	}
}

// Fits reports whether a solution was found.
func (o *Outcome) Fits() bool { return o.found }

func outcomeOf(a search.Answer, err error) (*Outcome, error) {
	if err != nil {
		return nil, err
	}
	return &Outcome{
		Results: a.Results, Steps: a.Steps, TurnedBack: a.TurnedBack, GaveUp: a.GaveUp, CommonBudget: a.CommonBudget,
		InvalidPools: a.InvalidPools, Value: a.Value, FirstFit: a.FirstFit, Compared: a.Compared,
		Whole: a.Whole, FirstFitWhole: a.FirstFitWhole, found: a.Found, search: a.Search,
	}, nil
}

// Reason gives a one-line reason why there is no solution: the claim, the request and the cause. It is
// computed on demand and only after a failed Solve; it is "" if there is a solution. It omits numbers and
// names that differ between nodes without informing the user, so that many nodes have few different reasons.
// Explain has them.
func (o *Outcome) Reason() string {
	if o.search == nil {
		return ""
	}
	reason, blame := explain.Reason(o.search)
	o.blame = blame
	return reason
}

// Blame returns the classification of the reason. It is known after a call of Reason.
func (o *Outcome) Blame() Blame {
	if o.GaveUp {
		return BlameSearch
	}
	return o.blame
}

// Brief is a fast form of Reason: it names the claims, but not the cause.
func (o *Outcome) Brief() string {
	if o.search == nil {
		return ""
	}
	return explain.Brief(o.search)
}

// Explain gives all reasons why there is no solution, or nil if there is one. Like Reason it is computed on
// demand, and it costs more than most searches. It reads the current ledger.
func (o *Outcome) Explain() *Explanation {
	if o.search == nil {
		return nil
	}
	return explain.Explain(o.search)
}
