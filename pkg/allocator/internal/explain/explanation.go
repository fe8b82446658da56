package explain

import (
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// Explain returns all reasons why a search found nothing. It costs more than most searches.
func Explain(facts Facts) *Explanation {
	q := inquiry{facts}
	e := &Explanation{Node: q.Node().Name, Steps: q.Steps(), GaveUp: q.GaveUp(), LeftOut: q.explainPools()}
	if q.GaveUp() {
		e.Reason = q.gaveUp()
	} else {
		found, alone := q.why(), q.firstShortage()
		if found.text != alone.text {
			e.Combination, e.Together = found.text, q.together(found, alone)
		}
		e.Reason = found.text + q.poolTrouble()
	}
	for _, c := range q.Asked().Claims() {
		e.Claims = append(e.Claims, q.explainClaim(c))
	}
	return e
}

// together describes what requests lack together although single requests have enough.
func (q inquiry) together(found, alone finding) string {
	var parts []string
	if alone.text == "" {
		parts = append(parts, "each request alone has enough available devices")
	}
	if found.detail != nil {
		if detail := found.detail(); detail != "" {
			parts = append(parts, detail)
		}
	}
	return strings.Join(parts, "; ")
}

func (q inquiry) explainClaim(c *task.Claim) Claim {
	e := Claim{Claim: klog.KObj(c.API).String()}
	for _, slot := range c.Slots {
		for _, r := range slot.Alternatives {
			e.Requests = append(e.Requests, q.explainRequest(r))
		}
	}
	constraints, survey := q.constraintsOf(c), q.survey()
	for i := range constraints {
		e.Constraints = append(e.Constraints, survey.agreement([]*task.Claim{c}, &constraints[i], constraints[i].appliesTo).explain())
	}
	return e
}

func (q inquiry) explainPools() []Pool {
	var list []Pool
	for _, pool := range q.Pools() {
		if pool.State != inventory.Complete && q.mayUse(pool) {
			list = append(list, Pool{ID: pool.ID, State: pool.State, Reason: pool.Reason})
		}
	}
	slices.SortFunc(list, func(a, b Pool) int { return a.ID.Compare(b.ID) })
	return list
}

func (a *agreement) explain() Constraint {
	usable, possible := a.count(none).greatest(a), a.count(EndsByItself).greatest(a)
	e := Constraint{
		Kind: "matchAttribute", Attribute: a.constraint.name.Full, Requests: a.names(), Wanted: a.wanted,
		Value: usable.value.String(), Best: usable.devices, Possible: possible.devices, PossibleValue: possible.value.String(),
		Enough: a.enough(&usable), PossiblyEnough: a.enough(&possible), Lacking: a.lacking(), Lists: a.lists(),
	}
	if a.constraint.api.DistinctAttribute != nil {
		e.Kind = "distinctAttribute"
	}
	return e
}
