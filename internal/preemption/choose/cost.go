package choose

import "cmp"

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
