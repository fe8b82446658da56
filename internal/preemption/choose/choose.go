package choose

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// MostPlans is a Budget that limits the time. With many victims, it may leave some that need not go.
const MostPlans = 48

// A Unit is one or more pods that are evicted together.
type Unit struct {
	Pods     []*v1.Pod
	Priority int32
	// Gang is "namespace/name" of the pods' gang, "" if they have none. Core is set for the unit without which the gang
	// cannot run. The gang's other units are pods that it can lose.
	Gang string
	Core bool
}

// PodsOf returns the pods of units.
func PodsOf(units []*Unit) (pods []*v1.Pod) {
	for _, unit := range units {
		pods = append(pods, unit.Pods...)
	}
	return pods
}

// A Question is the input of Choose. A Plan is a placement of the gang.
type Question[Plan any] struct {
	// Units are the candidates for eviction, the most important first.
	Units []*Unit
	DryRun[Plan]
	// Budget limits the calls of Fits and Within together.
	Budget int
}

// A DryRun plans a gang as if units were gone.
type DryRun[Plan any] interface {
	// Fits returns a plan for the gang once some units are gone, and whether there is one.
	Fits(gone []*Unit) (Plan, bool)
	// Within does the same as Fits in the part of the cluster that a plan uses.
	Within(plan Plan, gone []*Unit) (Plan, bool)
	// InTheWay reports whether a unit holds anything that a plan uses.
	InTheWay(Plan, *Unit) bool
}

// Choose returns the units that have to go, and a plan without them. It returns false if the gang does not fit even if
// all units were gone, or if that could not be found out.
//
// First Choose finds the lowest level (see levelOf) up to which units have to go. Of those units it takes the ones in
// the way of a plan, and puts back as many as it can, the most important first. The result is not always minimal, but
// within the budget, no victim can be put back alone.
func (q *Question[Plan]) Choose() (victims []*Unit, plan Plan, ok bool) {
	plan, gone, ok := q.leastLevel()
	if !ok {
		return nil, plan, false
	}
	first := plan
	victims = slices.DeleteFunc(slices.Clone(gone), func(unit *Unit) bool { return !q.InTheWay(first, unit) })
	if plan, ok = q.within(first, victims); !ok {
		return nil, plan, false
	}
	kept := make(map[*Unit]bool)
	q.putBack(first, victims, victims, kept, &plan)
	victims = slices.DeleteFunc(victims, func(unit *Unit) bool { return kept[unit] })
	return q.whole(victims), plan, true
}

// levelOf returns the order of eviction: by priority, and within a priority, pods that their gang can lose come before
// units without which a gang cannot run.
func levelOf(unit *Unit) int64 {
	level := 2 * int64(unit.Priority)
	if unit.Core {
		level++
	}
	return level
}

// leastLevel returns the units up to the lowest level such that the gang fits once they are gone.
func (q *Question[Plan]) leastLevel() (plan Plan, gone []*Unit, ok bool) {
	var levels []int64
	for _, unit := range q.Units {
		levels = append(levels, levelOf(unit))
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	upTo := func(highest int) []*Unit {
		return slices.DeleteFunc(slices.Clone(q.Units), func(unit *Unit) bool { return levelOf(unit) > levels[highest] })
	}
	if len(levels) == 0 {
		return plan, nil, false
	}
	low, high := 0, len(levels)-1
	gone = upTo(high)
	if plan, ok = q.fits(gone); !ok {
		return plan, nil, false
	}
	for low < high {
		middle := (low + high) / 2
		if better, ok := q.fits(upTo(middle)); ok {
			plan, gone, high = better, upTo(middle), middle
		} else {
			low = middle + 1
		}
	}
	return plan, gone, true
}

// putBack puts back as many units as it can: the whole list, or else the more important half first.
func (q *Question[Plan]) putBack(first Plan, victims, list []*Unit, kept map[*Unit]bool, plan *Plan) {
	if len(list) == 0 || q.Budget <= 0 {
		return
	}
	for _, unit := range list {
		kept[unit] = true
	}
	gone := slices.DeleteFunc(slices.Clone(victims), func(unit *Unit) bool { return kept[unit] })
	if better, ok := q.within(first, gone); ok {
		*plan = better
		return
	}
	for _, unit := range list {
		delete(kept, unit)
	}
	if len(list) == 1 {
		return
	}
	half := (len(list) + 1) / 2
	q.putBack(first, victims, list[:half], kept, plan)
	q.putBack(first, victims, list[half:], kept, plan)
}

// whole adds the other units of gangs that lose their core.
func (q *Question[Plan]) whole(victims []*Unit) []*Unit {
	lost := make(map[string]bool)
	for _, unit := range victims {
		if unit.Core {
			lost[unit.Gang] = true
		}
	}
	for _, unit := range q.Units {
		if !unit.Core && lost[unit.Gang] && !slices.Contains(victims, unit) {
			victims = append(victims, unit)
		}
	}
	return victims
}

func (q *Question[Plan]) fits(gone []*Unit) (plan Plan, ok bool) {
	if q.Budget--; q.Budget < 0 {
		return plan, false
	}
	return q.Fits(gone)
}

func (q *Question[Plan]) within(of Plan, gone []*Unit) (plan Plan, ok bool) {
	if q.Budget--; q.Budget < 0 {
		return plan, false
	}
	return q.Within(of, gone)
}

// Costs holds the cost of evicting units from nodes, by node name.
type Costs map[string]cost

// cost is the lowest cost of a unit on the node, and the cost of all of them.
type cost struct{ least, all int }

// CostsOf returns the costs of nodes with pods of the units. All other nodes cost nothing.
func CostsOf(units []*Unit) Costs {
	costs := make(Costs)
	for _, unit := range units {
		weight := len(unit.Pods)
		if unit.Core {
			weight++ // The last pod that a gang can lose costs one; the next pod costs the whole gang.
		}
		seen := make(map[string]bool)
		for _, pod := range unit.Pods {
			node := pod.Spec.NodeName
			if seen[node] {
				continue
			}
			seen[node] = true
			before, known := costs[node]
			if !known || weight < before.least {
				before.least = weight
			}
			before.all += weight
			costs[node] = before
		}
	}
	return costs
}

// Compare compares the costs of two nodes; it is negative if the first one costs less.
func (c Costs) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(c[a].least, c[b].least), cmp.Compare(c[a].all, c[b].all))
}
