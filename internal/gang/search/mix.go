package search

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// mix places enough pods in any order, after placing class by class has failed. The outcome depends only on how many
// pods of each class are on which node, so mix does not repeat states that led nowhere.
func (c *chain) mix(nowhere map[string]bool) bool {
	if sum(c.counts) >= c.Need {
		c.addMore()
		return true
	}
	key := c.key()
	if nowhere[key] {
		return false
	}
	for class := range slices.Backward(c.Classes) { // The order of place comes last.
		if c.counts[class] == c.Classes[class].Pods {
			continue
		}
		for _, node := range c.Nodes {
			if c.add(class, node) {
				if c.mix(nowhere) {
					return true
				}
				c.remove(class)
			}
			if c.stopped {
				return false
			}
		}
	}
	nowhere[key] = true
	return false
}

// addMore adds as many more pods as fit without turning back.
func (c *chain) addMore() {
	for class := range c.Classes {
		for _, node := range c.Nodes {
			for c.counts[class] < c.Classes[class].Pods && c.add(class, node) {
			}
		}
	}
}

// key identifies how many pods of each class are on which node.
func (c *chain) key() string {
	assignments := slices.Clone(c.assignments)
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Node, b.Node)) })
	var key []byte
	for _, assignment := range assignments {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(assignment.Class)), uint64(assignment.Node))
	}
	return string(key)
}
