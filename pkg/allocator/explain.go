package allocator

import (
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// explanationOf says in full why a search found nothing. It costs more than most searches.
func explanationOf(facts Facts) *Explanation {
	q := inquiry{facts}
	e := &Explanation{Node: q.Node().Name, Steps: q.Steps(), GaveUp: q.GaveUp(), LeftOut: q.explainPools()}
	if q.GaveUp() {
		e.Reason = q.gaveUp()
	} else {
		found, alone := q.why(), q.firstShortage()
		if found.text != alone.text {
			e.Conflict, e.Together = found.text, q.together(found, alone)
		}
		e.Reason = found.text + q.poolTrouble()
	}
	for _, c := range q.Asked().Claims() {
		e.Claims = append(e.Claims, q.explainClaim(c))
	}
	return e
}

// together says what is missing although single requests have what they need.
func (q inquiry) together(found, alone finding) string {
	var parts []string
	if alone.text == "" {
		parts = append(parts, "counted one by one, each request has enough available devices")
	}
	if found.detail != nil {
		if detail := found.detail(); detail != "" {
			parts = append(parts, detail)
		}
	}
	return strings.Join(parts, "; ")
}

func (q inquiry) explainClaim(c *claim) ExplainedClaim {
	e := ExplainedClaim{Claim: klog.KObj(c.api).String()}
	for _, slot := range c.slots {
		for _, r := range slot.alternatives {
			e.Requests = append(e.Requests, q.explainRequest(r))
		}
	}
	constraints, survey := q.constraintsOf(c), q.survey()
	for i := range constraints {
		e.Constraints = append(e.Constraints, survey.agreement([]*claim{c}, &constraints[i], constraints[i].appliesTo).explain())
	}
	return e
}

func (q inquiry) explainPools() []ExplainedPool {
	var list []ExplainedPool
	for _, pool := range q.Pools() {
		if pool.State != inventory.Complete {
			list = append(list, ExplainedPool{pool.ID, pool.State, pool.Reason})
		}
	}
	slices.SortFunc(list, func(a, b ExplainedPool) int { return a.ID.Compare(b.ID) })
	return list
}

func (a *agreement) explain() ExplainedConstraint {
	usable, possible := a.count(none).greatest(a), a.count(endsByItself).greatest(a)
	e := ExplainedConstraint{
		Kind: "matchAttribute", Attribute: a.constraint.name.full, Requests: a.names(), Wanted: a.wanted,
		Value: usable.value.String(), Best: usable.devices, Possible: possible.devices, PossibleValue: possible.value.String(),
		Enough: a.enough(&usable), PossiblyEnough: a.enough(&possible), Lacking: a.lacking(), Lists: a.lists(),
	}
	if a.constraint.api.DistinctAttribute != nil {
		e.Kind = "distinctAttribute"
	}
	return e
}
