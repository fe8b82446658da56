package allocator

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/explain"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/search"
)

// Outcome is the answer of a search that came to its end, one way or the other.
type Outcome struct {
	// Results has one entry for each claim, or is nil if there is no solution or
	// none was found within the budget. It is also nil after Check.
	Results []resourceapi.AllocationResult
	// Steps is how many devices were tried.
	Steps int
	// TurnedBack is true if the first choices, as far as they went, led nowhere.
	TurnedBack bool
	// GaveUp is true if the budget ran out: there may be a solution.
	GaveUp bool
	// CommonBudget is true if it gave up because of the budget that it has in common with
	// other searches, see WithSteps.
	CommonBudget bool
	// InvalidPools is true if there is no solution, but the node sees pools which
	// could not be allocated from because they contradict themselves.
	InvalidPools bool
	// With an objective and if there is a solution: Value is that of the plan, FirstFit that of
	// the solution which the search met first, and Compared how many solutions were compared, the
	// first one included.
	Value, FirstFit Value
	Compared        int
	// With Site.CountWhole: how many devices of the node the plan leaves wholly free, and how many the
	// solution that the search met first would. A device that is published in partitions is one.
	Whole, FirstFitWhole int

	found  bool
	search *search.Search // for Reason, until Release
	blame  Blame          // as of Reason
}

// Release gives the memory of a search that found nothing back, so that the next one
// can use it. There are no reasons after that. It is optional.
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

// Reason says in one line why there is no solution: which claim and request, and
// the cause. It is computed on demand and only after a failed Solve; "" if there is
// a solution. Numbers and names that differ from node to node without telling the
// user anything are left out, so that the reasons of many nodes are few. Explain has
// them.
func (o *Outcome) Reason() string {
	if o.search == nil {
		return ""
	}
	reason, blame := explain.Reason(o.search)
	o.blame = blame
	return reason
}

// Blame says what kind of thing is to blame, as far as that is known: Reason finds it out.
func (o *Outcome) Blame() Blame {
	if o.GaveUp {
		return BlameSearch
	}
	return o.blame
}

// Brief is Reason for callers that cannot wait for more: it names the claims, and not
// what is to blame.
func (o *Outcome) Brief() string {
	if o.search == nil {
		return ""
	}
	return explain.Brief(o.search)
}

// Explain says in full why there is no solution, nil if there is one. Like Reason it
// is computed on demand, and it costs more than most searches. It looks at the
// ledger as it is now.
func (o *Outcome) Explain() *Explanation {
	if o.search == nil {
		return nil
	}
	return explain.Explanation(o.search)
}
