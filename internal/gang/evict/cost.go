package evict

import "cmp"

// Costs has what it costs on nodes if some units have to go: by name of the node.
type Costs map[string]cost

// cost is the least that a pod can cost which gets a place there, and the most.
type cost struct{ least, all int }

// CostsOf returns the costs of nodes on which pods of the units are. On all others, nobody has to go.
func CostsOf(units []*Unit) Costs {
	costs := make(Costs)
	for _, unit := range units {
		weight := len(unit.Pods)
		if unit.Core {
			weight++ // With the last pod that a gang can do without, it costs one; with the next one, all.
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

// Compare says on which of two nodes less is lost: negative for the first one.
func (c Costs) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(c[a].least, c[b].least), cmp.Compare(c[a].all, c[b].all))
}
