package planning

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// order sorts the candidates: first the nodes on which the devices of the first class cost the least. It leaves out
// nodes that are known to suit no class.
func (a *attempt) order() {
	for i, node := range a.nodes {
		if a.mayHave(node.Name) {
			a.candidates = append(a.candidates, i)
		}
	}
	has, values := a.classes[0].view.Has, a.classes[0].view.Values
	slices.SortStableFunc(a.candidates, func(i, j int) int {
		x, y := a.nodes[i].Name, a.nodes[j].Name
		if values != nil {
			costX, knownX := values.Value(x)
			costY, knownY := values.Value(y)
			if knownX && knownY {
				return costX.Compare(costY)
			}
			if knownX != knownY {
				return boolToInt(knownY) - boolToInt(knownX)
			}
		}
		return boolToInt(has.Has(y)) - boolToInt(has.Has(x))
	})
	if key := a.spreadBy(); key != "" {
		a.candidates = inTurn(a.candidates, func(i int) string { return a.nodes[i].Labels[key] })
	}
}

// mayHave reports whether a node may suit pods of any class.
func (a *attempt) mayHave(name string) bool {
	for i, c := range a.classes {
		named, _ := a.rest.Named(i)
		if (c.view.Has == nil || c.view.Has.Has(name)) && (named == nil || named.Has(name)) && a.rejected(i) == "" {
			return true
		}
	}
	return false
}

// spreadBy returns the topology key over which pods must be spread, "" if there is none. The search takes
// fewer tries if successive nodes are in different domains.
func (a *attempt) spreadBy() string {
	for _, c := range a.classes {
		for i := range c.first().Spec.TopologySpreadConstraints {
			if constraint := &c.first().Spec.TopologySpreadConstraints[i]; constraint.WhenUnsatisfiable == v1.DoNotSchedule {
				return constraint.TopologyKey
			}
		}
	}
	return ""
}

// inTurn interleaves groups: the first member of each group, then the second of each, and so on.
func inTurn(list []int, group func(int) string) []int {
	rounds := make(map[string]int)
	round := make(map[int]int, len(list))
	for _, n := range list {
		of := group(n)
		round[n] = rounds[of]
		rounds[of]++
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(x, y int) int { return round[x] - round[y] })
	return sorted
}

// roundsOf returns the positions where the first group repeats.
func roundsOf(list []int, group func(int) string) (rounds []int) {
	seen := sets.New[string]()
	for position, n := range list {
		of := group(n)
		if seen.Has(of) {
			rounds = append(rounds, position)
			clear(seen)
		}
		seen.Insert(of)
	}
	return rounds
}

// appendNew appends the elements that list does not contain.
func appendNew(list, more []int) []int {
	there := sets.New(list...)
	for _, n := range more {
		if !there.Has(n) {
			list = append(list, n)
			there.Insert(n)
		}
	}
	return list
}
